#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_cases.hpp"

using namespace taut;
using namespace taut::test;

namespace {

std::uint64_t fresh_seed() {
  const char* given = std::getenv("TAUT_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : random_seed();
}

std::vector<Values> run(const LayerCase& test, std::uint64_t seed,
                        std::shared_ptr<Backend> backend) {
  LayerBench bench(test.definition, test.bottoms,
                   {.phase = test.phase, .tops = test.tops, .backend = std::move(backend)});
  fill_randomly(bench, seed, test.classes, test.labels_from_end);
  bench.forward(Clock(5));
  if (test.is_loss) {
    for (Values& gradient : bench.top_gradients) gradient.assign(gradient.size(), 1.0F);
  }
  if (test.phase == pb::TRAIN) bench.backward();
  return results_of(bench, test.phase == pb::TRAIN);
}

void check(const LayerCase& test, std::uint64_t seed) {
  INFO(test.definition << ", seed " << seed << " (TAUT_TEST_SEED repeats it)");
  const std::vector<Values> expected = run(test, seed, cpu());
  const std::vector<Values> actual = run(test, seed, cuda_device());
  REQUIRE(expected.size() == actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i << " of " << expected.size());
    CHECK(relative_error(actual[i], expected[i]) <= test.tolerance);
  }
}

/// By algorithms that do not depend on how fast each one was this time.
void check_all(const std::vector<LayerCase>& cases) {
  const std::uint64_t seed = fresh_seed();
  cuda_device()->set_math({.deterministic = true});
  for (const LayerCase& test : cases) check(test, seed);
  cuda_device()->set_math({});
}

}  // namespace

TEST_CASE("layers have the same bits twice by deterministic algorithms", "[gpu]") {
  const auto device = cuda_device();
  device->set_math({.deterministic = true});
  for (const auto& cases : {linear_cases(), channel_cases(), sequence_cases()}) {
    for (const LayerCase& test : cases) {
      INFO(test.definition);
      CHECK(run(test, 7, device) == run(test, 7, device));
    }
  }
  device->set_math({});
}

TEST_CASE("convolutions and inner products agree with the CPU's", "[gpu][kernel]") {
  check_all(linear_cases());
}
TEST_CASE("operations on channels agree with the CPU's", "[gpu][kernel]") {
  check_all(channel_cases());
}
TEST_CASE("pooling agrees with the CPU's, also where windows reach over the edge",
          "[gpu][kernel]") {
  check_all(pooling_cases());
}
TEST_CASE("elementwise operations agree with the CPU's", "[gpu][kernel]") {
  check_all(elementwise_cases());
}
TEST_CASE("operations that move, reduce or rank elements agree with the CPU's", "[gpu][kernel]") {
  check_all(shape_cases());
}
TEST_CASE("losses and accuracies agree with the CPU's", "[gpu][kernel]") {
  check_all(loss_cases());
}
TEST_CASE("layers over sequences agree with the CPU's", "[gpu][kernel]") {
  check_all(sequence_cases());
}
