#include "tests/unit/collective/toy_group.hpp"

using namespace taut;
using namespace taut::collective;
using namespace taut::test;

namespace {

/// What each rank was counted to send, in how many steps.
std::vector<Cost> counted(Algorithm algorithm, const std::vector<std::uint32_t>& hosts,
                          std::uint64_t count, std::uint64_t chunk) {
  ToyGroup group(algorithm, hosts, chunk,
                 std::vector(hosts.size(), std::vector<float>(count, 1.0F)));
  group.start();
  const std::uint64_t steps = group.run_in_steps();
  for (Cost& cost : group.sent) cost.steps = steps;
  return group.sent;
}

}  // namespace

TEST_CASE("messages, bytes and steps of each rank are those of the formulas", "[collective]") {
  const auto seed = GENERATE(range(0U, 60U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::uint32_t ranks = 1 + pick(random, 9);
  const std::uint64_t count = ranks + pick(random, 200);
  const std::uint64_t chunk = 1 + pick(random, 80);
  const std::vector<std::uint32_t> hosts = random_hosts(ranks, random);
  for (const Algorithm algorithm : kAlgorithms) {
    CAPTURE(to_string(algorithm), ranks, count, chunk, hosts);
    const std::vector<Cost> costs = counted(algorithm, hosts, count, chunk);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      const Cost expected = cost_of(algorithm, {Rank(rank), hosts}, count, chunk);
      CHECK(costs[rank].messages == expected.messages);
      CHECK(costs[rank].bytes == expected.bytes);
      CHECK(costs[rank].steps == expected.steps);
    }
  }
}

TEST_CASE("a ring takes 2(n-1) steps and messages, and 2(n-1)/n of the bytes", "[collective]") {
  const std::uint64_t count = 2520;  // a multiple of each n
  for (std::uint32_t n = 1; n <= 9; ++n) {
    for (const Cost& cost : counted(Algorithm::kRing, separate_hosts(n), count, count)) {
      CHECK(cost == Cost{2U * (n - 1), 2U * (n - 1), 2 * (n - 1) * count * sizeof(float) / n});
    }
  }
}

TEST_CASE(
    "halving takes 2 log2 p steps and 2(p-1)/p of the bytes, and as much again as the values "
    "for each rank beyond a power of two",
    "[collective]") {
  const std::uint64_t count = 2520;
  const std::uint64_t bytes = count * sizeof(float);
  for (const Cost& cost : counted(Algorithm::kHalving, separate_hosts(8), count, count)) {
    CHECK(cost == Cost{6, 6, 2 * 7 * bytes / 8});
  }
  const std::vector<Cost> six = counted(Algorithm::kHalving, separate_hosts(6), count, count);
  for (const std::uint32_t rank : {0U, 2U}) CHECK(six[rank] == Cost{6, 5, 6 * bytes / 4 + bytes});
  for (const std::uint32_t rank : {1U, 3U}) CHECK(six[rank] == Cost{6, 1, bytes});
  for (const std::uint32_t rank : {4U, 5U}) CHECK(six[rank] == Cost{6, 4, 6 * bytes / 4});
}

TEST_CASE("no rank of two trees sends more than twice the values", "[collective]") {
  const std::uint64_t count = 64;
  for (std::uint32_t n = 2; n <= 70; ++n) {
    const std::vector<Cost> costs =
        counted(Algorithm::kDoubleTree, separate_hosts(n), count, count);
    std::uint64_t steps = 0;
    while (2U << steps <= n) ++steps;
    for (const Cost& cost : costs) {
      CHECK(cost.bytes <= 2 * count * sizeof(float));
      CHECK(cost.messages <= 4);
      CHECK(cost.steps == 2 * steps);
    }
  }
}

TEST_CASE("on one host every rank sends each other one its part and takes its sum, in two steps",
          "[collective]") {
  const std::uint64_t count = 2520;
  for (std::uint32_t n = 2; n <= 9; ++n) {
    const std::vector<std::uint32_t> one_host(n, 7);
    for (const Cost& cost : counted(Algorithm::kHierarchical, one_host, count, count)) {
      CHECK(cost == Cost{2, 2U * (n - 1), 2 * (n - 1) * count * sizeof(float) / n});
    }
    // One rank for each host: a ring.
    CHECK(counted(Algorithm::kHierarchical, separate_hosts(n), count, count) ==
          counted(Algorithm::kRing, separate_hosts(n), count, count));
  }
}

TEST_CASE("between hosts with as many ranks each a rank sends only its part's share",
          "[collective]") {
  const std::uint64_t count = 2520;
  const std::uint64_t bytes = count * sizeof(float);
  const std::vector<std::uint32_t> hosts{0, 0, 0, 1, 1, 1};
  for (const Cost& cost : counted(Algorithm::kHierarchical, hosts, count, count)) {
    // Within a host two thirds of the values twice; to the other host half of a third, twice.
    CHECK(cost == Cost{4, 6, 2 * 2 * bytes / 3 + bytes / 3});
  }
}

TEST_CASE("all ranks together send 2(n-1) times the values, whatever the algorithm",
          "[collective]") {
  std::mt19937 random(5);
  for (std::uint32_t n = 1; n <= 9; ++n) {
    for (const Algorithm algorithm : kAlgorithms) {
      const std::uint64_t count = 1 + pick(random, 100);
      CAPTURE(to_string(algorithm), n, count);
      std::uint64_t bytes = 0;
      for (const Cost& cost : counted(algorithm, random_hosts(n, random), count, 16)) {
        bytes += cost.bytes;
      }
      CHECK(bytes == 2 * (n - 1) * count * sizeof(float));
    }
  }
}
