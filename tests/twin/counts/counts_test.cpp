// What a clock of some models asks of a device: launches, copies, bytes and waits. Kernels are
// counted and not executed, so nets of any size are counted in no time. Run by scripts/twin counts.
#include "tests/twin/counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/config/job_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/device/pinned_parts.hpp"
#include "worker/training/trainer.hpp"

using namespace taut;
using namespace taut::test;
using namespace taut::worker;
using twin::WorkCounts;

namespace {

struct Counted {
  const char* model = "";
  std::vector<Fed> fed;
  std::uint64_t max_launches = 0;  // of kernels in a clock
  Precision precision = Precision::kFloat32;
  const char* name = "";  // of the precision
};

const std::vector<Counted>& all_counted() {
  static const std::vector<Counted> all = {
      {"lenet", {{{64, 1, 28, 28}, 0}, {{64}, 10}}, 17},
      {"alexnet", {{{32, 3, 227, 227}, 0}, {{32}, 1000}}, 44},
      {"resnet50", {{{8, 3, 224, 224}, 0}, {{8}, 1000}}, 367},
      {"row_lstm", {{{28, 64, 28}, 0}, {{64}, 10}}, 12},
      {"resnet50", {{{8, 3, 224, 224}, 0}, {{8}, 1000}}, 800, Precision::kBfloat16, ", bf16"},
      {"resnet50", {{{8, 3, 224, 224}, 0}, {{8}, 1000}}, 1000, Precision::kFloat16, ", f16"},
  };
  return all;
}

constexpr auto kFields = std::to_array<std::uint64_t WorkCounts::*>(
    {&WorkCounts::kernels, &WorkCounts::kernel_elements, &WorkCounts::library_calls,
     &WorkCounts::graph_launches, &WorkCounts::copies_to_device, &WorkCounts::bytes_to_device,
     &WorkCounts::copies_to_host, &WorkCounts::bytes_to_host, &WorkCounts::copies_on_device,
     &WorkCounts::bytes_on_device, &WorkCounts::waits});

struct ClockCounts {
  WorkCounts work;
  std::uint64_t own_waits = 0;  // of the thread that computes, over all clocks
  std::map<std::string, std::uint64_t> launches;
};

/// What is counted from one moment to another, per clock of this number of clocks.
ClockCounts each_of(std::uint64_t clocks, const ClockCounts& until, const ClockCounts& from) {
  const auto share = [clocks](std::uint64_t all) { return (all + clocks / 2) / clocks; };
  ClockCounts each;
  for (const auto field : kFields) {
    each.work.*field = share(until.work.*field - from.work.*field);
  }
  each.own_waits = until.own_waits - from.own_waits;
  for (const auto& [name, count] : until.launches) {
    const auto before = from.launches.find(name);
    each.launches[name] = share(count - (before == from.launches.end() ? 0 : before->second));
  }
  return each;
}

std::unique_ptr<ParameterCache> own_values(Backend& backend, const JobAssets& assets,
                                           const pb::Job& job) {
  LocalCache::Options options;
  options.rule = to_update_rule(job.solver_param()).value();
  return std::make_unique<LocalCache>(backend, assets.train_graph().parameters, options);
}

/// A blob's elements, each one once, however many layers work in place.
std::uint64_t activations_of(const model::Graph& graph) {
  std::uint64_t elements = 0;
  for (const model::Blob& blob : graph.blobs) elements += model::element_count(blob.shape);
  return elements;
}

constexpr std::int64_t kClocks = 8;

/// The counts of one clock, when everything that is recorded is replayed. Copies of values and
/// gradients run ahead or behind, so it is the mean of several.
/// with_server  a worker with a server; else one that updates its own values
ClockCounts count_clock(Backend& backend, const pb::Job& job, bool with_server,
                        std::uint64_t& activations, std::uint64_t& gradients) {
  constexpr std::int64_t kFirst = 8;
  JobMaker maker(1, Slack(0), 2);
  *maker.state.mutable_definition() = job;
  ServedJob served(maker);
  const JobAssets assets = JobAssets::open(job, 1).value();
  activations = activations_of(assets.train_graph());
  gradients = static_cast<std::uint64_t>(std::ranges::count_if(
      assets.train_graph().parameters,
      [](const TableSpec& table) { return table.kind != TableKind::kFrozen; }));
  std::vector<Replica> replicas;
  replicas.push_back(assets.make_replica(backend, 0, 1, Clock(0)).value());
  ClientOptions options = served.options(WorkerId(0));
  options.shared_memory = SharedArena::create(Bytes(0), pinning(backend)).value();
  Client client(served.context.make_endpoint(), options);
  std::unique_ptr<ParameterCache> cache;
  if (with_server) {
    ServedCache::Options caching;
    caching.wait = 10 * kDeadline;
    cache = ServedCache::open(client, backend, assets.train_graph().parameters, caching).value();
  } else {
    cache = own_values(backend, assets, job);
  }
  ClockCounts from;
  ClockCounts until;
  Trainer::Options training;
  training.end = Clock(kFirst + kClocks + 1);
  training.before_clock = [&](Clock clock, Clock) {
    const bool is_counted = clock == Clock(kFirst) || clock == Clock(kFirst + kClocks);
    if (!is_counted) return;
    // The sender may be behind, more so on a slow machine.
    REQUIRE(cache->flush(10 * kDeadline).has_value());
    const ClockCounts now{twin::work_counts(), twin::waits_of_this_thread(),
                          twin::launches_by_name()};
    (clock == Clock(kFirst) ? from : until) = now;
  };
  ProgressBoard board;
  Trainer trainer(replicas, *cache, nullptr, training, board);
  const std::atomic<bool> stop = false;
  REQUIRE(trainer.run(stop).has_value());
  REQUIRE(cache->flush(10 * kDeadline).has_value());
  return each_of(kClocks, until, from);
}

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

void print(const std::string& name, const ClockCounts& counts, std::uint64_t activations) {
  const WorkCounts& work = counts.work;
  fmt::print("{:<15} {:>8} {:>8} {:>7} {:>7} {:>9.2f} {:>7} {:>9.2f} {:>9.2f} {:>6} {:>5.2f}\n",
             name, work.kernels, work.library_calls, work.graph_launches, work.copies_to_device,
             mebibytes(work.bytes_to_device), work.copies_to_host, mebibytes(work.bytes_to_host),
             static_cast<double>(work.kernel_elements) / static_cast<double>(activations),
             work.waits, static_cast<double>(counts.own_waits) / static_cast<double>(kClocks));
  if (std::getenv("TAUTLINE_TWIN_NAMES") != nullptr) {
    for (const auto& [kernel, launches] : counts.launches) {
      if (launches > 0) fmt::print("    {:>5}  {}\n", launches, kernel);
    }
  }
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("a clock's launches, copies, bytes and waits", "[counts]") {
  twin::count_only(true);
  const char* const only = std::getenv("TAUTLINE_TWIN_MODEL");
  fmt::print("{:<15} {:>8} {:>8} {:>7} {:>7} {:>9} {:>7} {:>9} {:>9} {:>6} {:>5}\n", "model",
             "kernels", "library", "graphs", "to dev", "MiB", "to host", "MiB", "passes", "waits",
             "own");
  for (const Counted& counted : all_counted()) {
    if (only != nullptr && only != fmt::format("{}{}", counted.model, counted.name)) continue;
    for (const bool with_server : {true, false}) {
      auto choice = make_backend({.device = DeviceKind::kCuda});
      if (!choice) FAIL(choice.error().message);
      choice.value().backend->set_math({.precision = counted.precision});
      std::uint64_t activations = 0;
      std::uint64_t gradients = 0;
      const ClockCounts counts =
          count_clock(*choice.value().backend, job_of(counted.model, counted.fed), with_server,
                      activations, gradients);
      print(fmt::format("{}{}{}", counted.model, counted.name, with_server ? "" : ", alone"),
            counts, activations);
      if (with_server) {
        // The sender waits for each gradient, and the compute for nothing.
        CHECK(counts.own_waits == 0);
        CHECK(counts.work.waits == gradients);
        CHECK(counts.work.kernels <= counted.max_launches);
      } else {
        // Nothing but a feed's bound holds the host back: it waits once in a clock.
        CHECK(counts.own_waits <= kClocks);
        // All updates are one launch, and all averages.
        CHECK(counts.work.kernels <= counted.max_launches + 2);
      }
    }
  }
}
