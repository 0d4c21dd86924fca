#include "worker/compression/scheme_costs.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/math/codec.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/compression/choice_board.hpp"

namespace taut::worker {
namespace {

using Push = pb::PushCompression;

/// Tables of a slice and a half, of less than min_values, and of running statistics.
std::vector<TableSpec> some_tables() {
  std::vector<TableSpec> tables(3);
  tables[0].shape = {384, 1024};
  tables[1].shape = {100};
  tables[2].shape = {8192};
  tables[2].kind = TableKind::kAveraged;
  return tables;
}

pb::Job job_with(Push::Scheme scheme) {
  pb::Job job;
  job.mutable_compression()->add_push()->set_scheme(scheme);
  job.mutable_compression()->add_pull()->set_scheme(pb::PullCompression::AUTO);
  return job;
}

}  // namespace

TEST_CASE("each candidate costs its bytes and the time of its tables", "[auto]") {
  pb::Job job = job_with(Push::AUTO);
  job.mutable_compression()->mutable_push(0)->add_allow(Push::POWER_SGD);
  pb::CompressionCosts costs;
  REQUIRE(measure_codecs(job, some_tables(), costs).has_value());
  REQUIRE(costs.push_size() == 5);
  REQUIRE(costs.pull_size() == 4);
  const std::uint64_t plain = 4 * (100 + 8192);
  const std::uint64_t count = 384 * 1024;
  CHECK(costs.push(0).scheme() == Push::FLOAT32);
  CHECK(costs.push(0).bytes() == plain + 4 * count);
  CHECK(costs.push(0).encode_s() == 0);
  CHECK(costs.push(1).scheme() == Push::FP16);
  CHECK(costs.push(1).bytes() == plain + 2 * count);
  CHECK(costs.push(3).scheme() == Push::INT8);
  CHECK(costs.push(3).bytes() == plain + count + 4 * count / 256);
  CHECK(costs.push(4).scheme() == Push::POWER_SGD);
  CHECK(costs.push(4).bytes() == plain + 4 * 2 * (256 + 1024) + 4 * 2 * (128 + 1024));
  CHECK(costs.pull(3).bytes() == costs.push(3).bytes());
  for (int i = 1; i < costs.push_size(); ++i) {
    CHECK(costs.push(i).encode_s() > 0);
    CHECK(costs.push(i).decode_s() > 0);
  }
  // Factors take two passes over the values, and more time than rounding.
  CHECK(costs.push(4).encode_s() > costs.push(1).encode_s());
}

TEST_CASE("an update costs a shard its share of a sum, of what it kept or of all float32 values",
          "[auto]") {
  pb::Job job = job_with(Push::AUTO);
  pb::PushCompression& push = *job.mutable_compression()->mutable_push(0);
  push.add_allow(Push::TOP_K);
  push.set_keep(0.001F);
  pb::CompressionCosts costs;
  REQUIRE(measure_codecs(job, some_tables(), costs).has_value());
  REQUIRE(costs.push_size() == 5);
  REQUIRE(costs.push(4).scheme() == Push::TOP_K);
  CHECK(costs.push(0).decode_s() > 0);
  // A thousandth of the values, and those of the tables that are too small.
  CHECK(costs.push(4).decode_s() < costs.push(0).decode_s());
  // Values in float32 are read where they arrive.
  CHECK(costs.pull(0).decode_s() == 0);
}

TEST_CASE("what a job names is measured alone", "[auto]") {
  pb::CompressionCosts costs;
  REQUIRE(measure_codecs(job_with(Push::BF16), some_tables(), costs).has_value());
  REQUIRE(costs.push_size() == 1);
  CHECK(costs.push(0).scheme() == Push::BF16);
  CHECK(costs.pull_size() == 4);
  pb::Job several = job_with(Push::FP16);
  several.mutable_compression()->mutable_push(0)->set_min_values(50);
  several.mutable_compression()->add_push()->set_scheme(Push::INT8);
  costs.Clear();
  REQUIRE(measure_codecs(several, some_tables(), costs).has_value());
  REQUIRE(costs.push_size() == 1);
  CHECK(costs.push(0).scheme() == Push::FLOAT32);
  CHECK(costs.push(0).bytes() == 2 * 100 + 4 * 8192 + 384 * 1024 + 4 * 384 * 1024 / 256);
}

TEST_CASE("a server of this machine is as fast as memory, whatever its transport", "[auto]") {
  ZmqContext context(Security::insecure());
  const std::atomic<bool> given_up = false;
  for (const char* address : {"127.0.0.1:1", "ucx://127.0.0.1:1"}) {
    INFO(address);
    pb::WorkerJob job;
    job.add_shards()->set_address(address);
    // Nothing listens there: it would be found unreachable.
    CHECK(measure_bandwidth(context, job, true, given_up) > 0);
    CHECK(measure_bandwidth(context, job, false, given_up) == 0);
  }
}

TEST_CASE("a clock's compute is timed and leaves nothing behind", "[auto]") {
  const auto backend = test::one_thread();
  pb::WorkerJob job;
  *job.mutable_definition() = test::lenet();
  job.mutable_definition()->mutable_solver_param()->set_iter_size(2);
  job.set_slots(1);
  const auto assets = JobAssets::open(job.definition(), 1);
  REQUIRE(assets.has_value());
  const auto took = measure_compute(job, assets.value(), *backend);
  REQUIRE(took.has_value());
  CHECK(took.value() > 1e-5);
  CHECK(took.value() < 60);
  const auto before = test::train(*backend, test::lenet(), 2);
  REQUIRE(measure_compute(job, assets.value(), *backend).has_value());
  const auto after = test::train(*backend, test::lenet(), 2);
  REQUIRE((before.has_value() && after.has_value()));
  CHECK(before.value() == after.value());
}

TEST_CASE("what was measured is reported until it has led to a choice", "[auto]") {
  ChoiceBoard board;
  pb::WorkerJob job;
  *job.mutable_definition() = job_with(Push::AUTO);
  board.post(job);
  pb::Progress progress;
  board.report(progress);
  CHECK_FALSE(progress.has_measured());
  pb::CompressionCosts costs;
  costs.set_compute_s(3);
  board.set_measured(costs);
  board.report(progress);
  CHECK(progress.measured().compute_s() == 3);
  CHECK_FALSE(board.chosen().has_value());
  pb::WorkerJob chosen;
  chosen.mutable_definition()->mutable_compression()->add_push()->set_scheme(Push::INT8);
  board.post(chosen);
  board.post(job);  // late
  REQUIRE(board.chosen().has_value());
  CHECK(board.chosen()->push(0).scheme() == Push::INT8);
  pb::Progress later;
  board.report(later);
  CHECK_FALSE(later.has_measured());
}

}  // namespace taut::worker
