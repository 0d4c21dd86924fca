// The same training under many schedules: the seed decides when queued work runs, and in which
// order.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/twin/counts.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/schedules/scenarios.hpp"

using namespace taut;
using namespace taut::twin::test;

namespace {

// Read when the first call asks for the number of devices.
const int three_devices = setenv("TAUTLINE_TWIN_DEVICES", "3", 1);

constexpr std::uint64_t kAtOnce = 4;  // a seed under which everything runs as soon as it may
// Sums over blocks of a recurrent layer's products have no fixed order.
constexpr double kTolerance = 1e-4;
// Of a CPU's sums, after some clocks.
constexpr double kCpuTolerance = 2e-3;
constexpr double kHalfTolerance = 2e-2;
// Seeds between two looks at what no training does, which takes longer.
constexpr std::uint64_t kBordersEvery = 50;

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

bool is_chosen(const Scenario& scenario) {
  const char* const only = std::getenv("TAUTLINE_TWIN_SCENARIO");
  return only == nullptr || std::string(only) == scenario.name;
}

Tables trained(const Scenario& scenario, const Run& run) {
  auto tables = train(scenario, run);
  if (!tables) FAIL(tables.error().message);
  return tables.value();
}

/// tolerance  of the larger of an element and 1; 0: the same bits
bool agree(const Tables& found, const Tables& expected, double tolerance) {
  if (tolerance == 0) return found == expected;
  if (found.size() != expected.size()) return false;
  for (std::size_t table = 0; table < found.size(); ++table) {
    for (std::size_t i = 0; i < found[table].size(); ++i) {
      if (found[table][i] != Approx(expected[table][i]).margin(tolerance)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("trainings have the same bits under every schedule", "[twin][schedules]") {
  REQUIRE(three_devices == 0);
  const std::uint64_t first = number("TAUTLINE_TWIN_FIRST_SEED", 1);
  const std::uint64_t count = number("TAUTLINE_TWIN_SEEDS", 20);
  std::map<std::string, Tables> expected;
  twin::set_seed(kAtOnce);
  for (const Scenario& scenario : scenarios()) {
    // Nothing is recorded, and nothing is late.
    if (!is_chosen(scenario)) continue;
    INFO(scenario.name);
    expected[scenario.name] = trained(scenario, {.graphs = false});
    const Tables cpu = trained(scenario, {.on_cpu = true});
    const bool is_half = scenario.precision == Precision::kFloat16;
    REQUIRE(agree(expected[scenario.name], cpu, is_half ? kHalfTolerance : kCpuTolerance));
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    twin::set_seed(seed);
    INFO("seed " << seed);
    if (seed % kBordersEvery == 1) REQUIRE(check_borders().empty());
    for (const Scenario& scenario : scenarios()) {
      if (!is_chosen(scenario)) continue;
      INFO(scenario.name);
      const Run run{.graphs = seed % 8 != 7, .separate_memory = seed % 4 >= 2};
      const double tolerance = scenario.deterministic ? 0 : kTolerance;
      REQUIRE(agree(trained(scenario, run), expected[scenario.name], tolerance));
    }
    if (seed % 100 == 0) {
      std::printf("%llu seeds\n", static_cast<unsigned long long>(seed));
      std::fflush(stdout);
    }
  }
}

TEST_CASE("small gradients of several devices are averaged in one exchange", "[twin][schedules]") {
  for (const Scenario& scenario : scenarios()) {
    if (!scenario.nccl || !is_chosen(scenario)) continue;
    const std::uint64_t groups = twin::calls_of("ncclGroupEnd");
    const std::uint64_t spread = twin::calls_of("ncclBroadcast");
    const Run run{.clocks = 3};
    (void)trained(scenario, run);
    const auto devices = static_cast<std::uint64_t>(scenario.devices);
    const std::uint64_t spreads = (twin::calls_of("ncclBroadcast") - spread) / devices;
    // A table's values are a separate group, all gradients of a clock are one.
    CHECK(twin::calls_of("ncclGroupEnd") - groups ==
          spreads + static_cast<std::uint64_t>(run.clocks));
  }
}
