// What a clock of some models asks of a device: launches, copies, bytes and waits. Kernels are
// counted and not executed, so nets of any size are counted in no time. Run by scripts/twin counts.
#include "tests/twin/counts.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "proto/config/job_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/device/pinned_parts.hpp"
#include "worker/trainer.hpp"

using namespace taut;
using namespace taut::test;
using namespace taut::worker;
using twin::WorkCounts;

namespace {

struct Counted {
  const char* model = "";
  std::vector<Fed> fed;
};

const std::vector<Counted>& all_counted() {
  static const std::vector<Counted> all = {
      {"lenet", {{{64, 1, 28, 28}, 0}, {{64}, 10}}},
      {"alexnet", {{{32, 3, 227, 227}, 0}, {{32}, 1000}}},
      {"resnet50", {{{8, 3, 224, 224}, 0}, {{8}, 1000}}},
      {"row_lstm", {{{28, 64, 28}, 0}, {{64}, 10}}},
  };
  return all;
}

WorkCounts minus(const WorkCounts& a, const WorkCounts& b) {
  WorkCounts rest;
  const auto one = [&](auto field) { rest.*field = a.*field - b.*field; };
  one(&WorkCounts::kernels);
  one(&WorkCounts::kernel_elements);
  one(&WorkCounts::library_calls);
  one(&WorkCounts::graph_launches);
  one(&WorkCounts::copies_to_device);
  one(&WorkCounts::bytes_to_device);
  one(&WorkCounts::copies_to_host);
  one(&WorkCounts::bytes_to_host);
  one(&WorkCounts::copies_on_device);
  one(&WorkCounts::bytes_on_device);
  one(&WorkCounts::waits);
  return rest;
}

/// Of one clock, when all that is recorded is replayed.
WorkCounts count_clock(Backend& backend, const pb::Job& job, std::uint64_t& activations) {
  constexpr std::int64_t kClocks = 10;
  JobMaker maker(1, Slack(0), 2);
  *maker.state.mutable_definition() = job;
  ServedJob served(maker);
  const JobAssets assets = JobAssets::open(job, 1).value();
  for (const model::Blob& blob : assets.train_graph().blobs) {
    activations += model::element_count(blob.shape);
  }
  std::vector<Replica> replicas;
  replicas.push_back(assets.make_replica(backend, 0, 1, Clock(0)).value());
  ClientOptions options = served.options(WorkerId(0));
  options.shared_memory = SharedArena::create(Bytes(0), pinning(backend)).value();
  Client client(served.context.make_endpoint(), options);
  ServedCache::Options caching;
  caching.wait = 10 * kDeadline;
  const auto cache =
      ServedCache::open(client, backend, assets.train_graph().parameters, caching).value();
  WorkCounts last;
  WorkCounts before;
  Trainer::Options training;
  training.end = Clock(kClocks);
  training.before_clock = [&](Clock, Clock) { before = std::exchange(last, twin::work_counts()); };
  ProgressBoard board;
  Trainer trainer(replicas, *cache, nullptr, training, board);
  const std::atomic<bool> stop = false;
  REQUIRE(trainer.run(stop).has_value());
  REQUIRE(cache->flush(10 * kDeadline).has_value());
  return minus(last, before);
}

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

}  // namespace

TEST_CASE("a clock's launches, copies, bytes and waits", "[counts]") {
  twin::count_only(true);
  const char* const only = std::getenv("TAUTLINE_TWIN_MODEL");
  fmt::print("{:<10} {:>8} {:>8} {:>7} {:>7} {:>9} {:>7} {:>9} {:>9} {:>6}\n", "model", "kernels",
             "library", "graphs", "to dev", "MiB", "to host", "MiB", "passes", "waits");
  for (const Counted& counted : all_counted()) {
    if (only != nullptr && std::string(only) != counted.model) continue;
    auto choice = make_backend({.device = DeviceKind::kCuda});
    if (!choice) FAIL(choice.error().message);
    std::uint64_t activations = 0;
    const WorkCounts counts =
        count_clock(*choice.value().backend, job_of(counted.model, counted.fed), activations);
    fmt::print("{:<10} {:>8} {:>8} {:>7} {:>7} {:>9.2f} {:>7} {:>9.2f} {:>9.1f} {:>6}\n",
               counted.model, counts.kernels, counts.library_calls, counts.graph_launches,
               counts.copies_to_device, mebibytes(counts.bytes_to_device), counts.copies_to_host,
               mebibytes(counts.bytes_to_host),
               static_cast<double>(counts.kernel_elements) / static_cast<double>(activations),
               counts.waits);
    std::fflush(stdout);
  }
}
