#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

constexpr std::uint64_t kWorkers = 3;
constexpr std::uint64_t kSlices = 2;  // of the weights and of the bias

Topology::Traffic traffic_of(std::uint32_t shards, int clocks) {
  TrainingOptions options =
      tiny_training("solver_param { base_lr: 0.1 max_iter: " + std::to_string(clocks) + " }",
                    "compute { clock_ms: 50 }");
  options.job.mutable_consistency()->clear_slack();
  options.job.mutable_consistency()->set_mode(pb::Consistency::ASYNC);
  options.shards = shards;
  options.learns = false;
  const TrainingOutcome outcome = run_to_end(options);
  REQUIRE(outcome.job.state() == pb::DONE);
  return outcome.servers;
}

}  // namespace

TEST_CASE("each worker's clock is a message of each slice to the servers and one back", "[lab]") {
  const Topology::Traffic brief = traffic_of(4, 5);
  const Topology::Traffic longer = traffic_of(4, 15);
  CHECK(longer.messages_in - brief.messages_in == 10 * kWorkers * kSlices);
  CHECK(longer.messages_out - brief.messages_out == 10 * kWorkers * kSlices);
}

TEST_CASE("a worker greets each shard and opens its tables, which the first one names", "[lab]") {
  for (const std::uint64_t shards : {1UL, 2UL, 4UL, 9UL}) {
    // The slices of one shard have one message.
    const std::uint64_t of_slices = kWorkers * std::min(kSlices, shards);
    CHECK(traffic_of(static_cast<std::uint32_t>(shards), 5).messages_in ==
          (1 + 5) * of_slices + 2 * kWorkers * shards + shards);
  }
}

TEST_CASE("what queues at a shard for half a second is not sent again", "[lab]") {
  TrainingOptions options =
      tiny_training("solver_param { base_lr: 0.1 max_iter: 12 }",
                    "compute { clock_ms: 1 } costs { shard_message_us: 100000 }");
  options.job.mutable_consistency()->clear_slack();
  options.job.mutable_consistency()->set_mode(pb::Consistency::BSP);
  options.learns = false;
  const TrainingOutcome outcome = run_to_end(options);
  REQUIRE(outcome.job.state() == pb::DONE);
  CHECK(outcome.virtual_s > 12 * kWorkers * 0.1);
  for (const pb::WorkerStatus& worker : outcome.job.workers()) {
    CHECK(worker.progress().resent_requests() == 0);
  }
}

}  // namespace taut::lab
