// A call of the runtime or of a library is made to fail (TAUTLINE_TWIN_FAIL): the training ends
// with an error or continues, and what the shards have is always what a training without the
// failure had at some clock. Without shards, a training that continues ends with the values of one
// without the failure. Run by scripts/twin failures, a process for each failure.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "common/device_error.hpp"
#include "tests/support/catch.hpp"
#include "tests/twin/schedules/scenarios.hpp"

using namespace taut;
using namespace taut::twin::test;

namespace {

// Some are recorded, and at least one is replayed.
constexpr std::int64_t kFailureClocks = 8;

const Scenario& chosen() {
  const char* const name = std::getenv("TAUTLINE_TWIN_SCENARIO");
  for (const Scenario& scenario : scenarios()) {
    if (std::string(scenario.name) == (name == nullptr ? "served" : name)) return scenario;
  }
  FAIL("TAUTLINE_TWIN_SCENARIO names no scenario");
  return scenarios()[0];
}

/// What the shards have after each number of clocks.
using Reference = std::vector<Tables>;

void write(const Reference& reference, const char* path) {
  std::ofstream file(path, std::ios::binary);
  for (const Tables& tables : reference) {
    for (const auto& table : tables) {
      file.write(reinterpret_cast<const char*>(table.data()),
                 static_cast<std::streamsize>(table.size() * sizeof(float)));
    }
  }
  REQUIRE(file.good());
}

// Where NCCL fails, devices exchange by copies, which add in another order.
constexpr double kOtherOrder = 1e-4;

bool is_same(const std::vector<float>& found, const std::vector<float>& expected) {
  if (!chosen().nccl || found.size() != expected.size()) return found == expected;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != Approx(expected[i]).margin(kOtherOrder)) return false;
  }
  return true;
}

/// tables  as long as the reference's
Reference read(const char* path, const Tables& tables) {
  std::ifstream file(path, std::ios::binary);
  Reference reference(static_cast<std::size_t>(kFailureClocks) + 1, tables);
  for (Tables& all : reference) {
    for (auto& table : all) {
      file.read(reinterpret_cast<char*>(table.data()),
                static_cast<std::streamsize>(table.size() * sizeof(float)));
    }
  }
  REQUIRE(file.good());
  return reference;
}

}  // namespace

TEST_CASE("what shards have after each clock is written down", "[.reference]") {
  Reference reference;
  for (std::int64_t clocks = 0; clocks <= kFailureClocks; ++clocks) {
    // A clock of no training is its initial values.
    reference.push_back(train(chosen(), {.graphs = false, .clocks = clocks}).value());
  }
  write(reference, std::getenv("TAUTLINE_TWIN_REFERENCE"));
}

TEST_CASE("a call that fails ends the training or changes nothing", "[.failure]") {
  Tables at_end;
  std::string outcome = "continued";
  try {
    const auto trained = train(chosen(), {.clocks = kFailureClocks}, &at_end);
    if (!trained) {
      REQUIRE_FALSE(trained.error().message.empty());
      outcome = "ended: " + trained.error().message;
    } else if (chosen().is_local) {
      at_end = trained.value();  // there are no shards
    }
  } catch (const DeviceError& failure) {
    outcome = std::string("ended: ") + failure.what();
  }
  std::printf("%s\n", outcome.c_str());
  const Reference reference = read(std::getenv("TAUTLINE_TWIN_REFERENCE"), at_end);
  for (std::size_t table = 0; table < at_end.size(); ++table) {
    INFO("table " << table);
    bool found = false;
    for (const Tables& tables : reference) found = found || is_same(at_end[table], tables[table]);
    CHECK(found);
    if (outcome == "continued") CHECK(is_same(at_end[table], reference.back()[table]));
  }
}
