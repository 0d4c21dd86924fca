#include <cstdint>
#include <string>

#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/engine/plan/planned_backend.hpp"

using namespace taut;
using namespace taut::test;

namespace {

// The sums of a few clocks in another order; the losses of both trainings go the same way.
constexpr double kTolerance = 2e-3;

void check_close(const Tables& actual, const Tables& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t table = 0; table < actual.size(); ++table) {
    CAPTURE(table);
    CHECK(relative_error(actual[table], expected[table]) < kTolerance);
  }
}

}  // namespace

TEST_CASE("training on the device ends near the CPU's, with a server and without", "[gpu]") {
  const pb::Job job = lenet();
  const auto host = one_thread();
  const auto device = cuda_device();
  device->set_math({.deterministic = true});
  const Tables alone = train(*device, job, 4).value();
  check_close(alone, train(*host, job, 4).value());
  check_close(train_served(*device, job, 4).value(), alone);
  device->set_math({});
}

TEST_CASE("a training within a budget ends in the bits of one without, on the device", "[gpu]") {
  const pb::Job job = lenet();
  const auto device = cuda_device();
  device->set_math({.deterministic = true});
  PlannedBackend unlimited(*device, {.budget = Bytes(1ULL << 30U)});
  const Tables expected = train(unlimited, job, 4).value();
  const std::uint64_t peak = unlimited.cycle("training")->plan().peak_bytes.value();
  // Less than what is live at once, and enough for the largest step with its workspace.
  PlannedBackend planned(*device, {.budget = Bytes(peak * 9 / 10), .poison = true});
  CHECK(train(planned, job, 4, 1, planned.budget()).value() == expected);
  CHECK(planned.cycle("training")->plan().moved_bytes().value() > 0);
  device->set_math({});
}
