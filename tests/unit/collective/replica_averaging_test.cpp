#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/collective/toy_cluster.hpp"
#include "tests/unit/collective/toy_group.hpp"

namespace taut::collective {
namespace {

using test::kClocks;
using test::kTables;
using test::ToyCluster;
using test::ToyWorker;

/// All that live ended without an error, with the same values after the last meeting.
void check_ended_alike(const std::vector<std::unique_ptr<ToyWorker>>& workers) {
  const Clock last(kClocks - 1);
  for (const auto& worker : workers) {
    CAPTURE(worker->number());
    CHECK(worker->error == "");
    CHECK(worker->clock() == Clock(kClocks));
    REQUIRE(worker->values.contains(last));
    CHECK(worker->values.at(last) == workers.front()->values.at(last));
    for (const auto& [clock, values] : worker->values) {
      REQUIRE(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
    }
  }
}

}  // namespace

TEST_CASE("what may arrive early follows the size of the model", "[collective][gossip]") {
  const std::uint64_t rest = GroupOptions().early.value();
  const std::uint64_t model = 3ULL << 30U;
  const auto models = [&](std::optional<Graph> graph, std::uint32_t ranks) {
    const std::uint64_t limit = early_limit(graph, Rank(0), ranks, Bytes(model)).value();
    REQUIRE((limit - rest) % model == 0);
    return (limit - rest) / model;
  };
  // A clock of each neighbour that sends to this rank.
  CHECK(models(Graph::kRing, 2) == 1);
  CHECK(models(Graph::kRing, 8) == 2);
  CHECK(models(Graph::kHypercube, 8) == 3);
  // Ranks at distances 1, 2 and 4, each up to three clocks ahead.
  CHECK(models(Graph::kExponential, 8) == 9);
  CHECK(models(std::nullopt, 8) == 8);
  CHECK(models(Graph::kRing, 1) == 0);
  CHECK(models(Graph::kExponential, 1) == 0);
  CHECK(early_limit(Graph::kRing, Rank(0), 8, Bytes(0)).value() == rest);
}

TEST_CASE("workers that average with neighbours end in the same bits each time",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const bool shares_memory = GENERATE(false, true);
  CAPTURE(to_string(graph), shares_memory);
  ToyCluster cluster(4, Algorithm::kRing, shares_memory, shares_memory, graph);
  ToyCluster again(4, Algorithm::kRing, false, false, graph);
  const auto& workers = cluster.finish();
  const auto& others = again.finish();
  check_ended_alike(workers);
  REQUIRE(others.size() == workers.size());
  bool differ = false;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    CHECK(workers[i]->values.size() == kClocks);
    CHECK(workers[i]->values == others[i]->values);
    differ |= workers[i]->values != workers.front()->values;
  }
  CHECK(differ);
}

TEST_CASE("workers that average send their model to each neighbour at each clock",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  constexpr std::uint32_t kWorkers = 4;
  CAPTURE(to_string(graph));
  ToyCluster cluster(kWorkers, Algorithm::kRing, false, false, graph);
  const auto& workers = cluster.finish();
  check_ended_alike(workers);
  const std::size_t values = kTables[0] + kTables[1] + kTables[2];
  for (const auto& worker : workers) {
    // Neighbours are counted, not which they are: ranks are in the order of hosts.
    const std::size_t degree = neighbours_of(graph, Rank(0), kWorkers).to.size();
    // In the new group six numbers of each rank, around a ring.
    const std::size_t agreed = 2 * (kWorkers - 1) * 6;
    CHECK(worker->sent == sizeof(float) * (kClocks * degree * values + agreed));
  }
}

TEST_CASE("without a common clock each active worker averages once a clock with a passive one",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const std::uint32_t count = GENERATE(2U, 3U, 4U, 5U);
  const bool shares_memory = GENERATE(false, true);
  CAPTURE(to_string(graph), count, shares_memory);
  ToyCluster cluster(count, Algorithm::kRing, shares_memory, shares_memory, graph, true);
  const auto& workers = cluster.finish();
  check_ended_alike(workers);
  // A request and an answer for each of the active ones' clocks; and in the new group six numbers
  // of each rank, around a ring.
  std::uint64_t active = 0;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    active += is_active(graph, Rank(rank), count) ? 1 : 0;
  }
  const std::uint64_t values = kTables[0] + kTables[1] + kTables[2];
  const std::uint64_t agreed = std::uint64_t{2} * (count - 1) * 6 * count;
  std::uint64_t sent = 0;
  for (const auto& worker : workers) sent += worker->sent;
  CHECK(sent == sizeof(float) * (2 * active * kClocks * values + agreed));
}

TEST_CASE("workers that average with neighbours die and join, and all that are left end alike",
          "[collective][gossip]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{13}));
  const bool asynchronous = GENERATE(false, true);
  CAPTURE(seed, asynchronous);
  std::mt19937_64 random(seed);
  const Graph graph = test::kGraphs[random() % std::size(test::kGraphs)];
  ToyCluster cluster(static_cast<std::uint32_t>(2 + random() % 3), Algorithm::kRing,
                     random() % 2 == 0, random() % 2 == 0, graph, asynchronous);
  while (cluster.clock() < Clock(kClocks - 12)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    if (random() % 2 == 0 && cluster.size() > 1) {
      cluster.kill(random() % 8, std::chrono::milliseconds(random() % 30));
    } else if (cluster.size() < 5) {
      cluster.join_one();
    }
    cluster.look();
  }
  check_ended_alike(cluster.finish());
}

}  // namespace taut::collective
