#include "cuda/kernels/update.hpp"

#include <array>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using math::RuleKind;

namespace {

struct Outcome {
  std::vector<float> values;
  std::vector<float> first;
  std::vector<float> second;
};

math::UpdateStep step_of(bool l1) {
  math::UpdateStep step;
  step.rate = 0.05F;
  step.decay = 0.001F;
  step.momentum = 0.9F;
  step.momentum2 = 0.99F;
  step.ahead = 0.9F;
  step.rms_decay = 0.95F;
  step.delta = 1e-6F;
  step.l1 = l1;
  return step;
}

constexpr std::array<float, 3> kFactors = {1.0F, 0.25F, -2.0F};

/// Two applications of three gradients, so that states that were written are read again.
Outcome on_device(RuleKind kind, const math::UpdateStep& step, std::int64_t count,
                  std::int64_t shift) {
  const TestStream stream;
  const Array<float> values(random_floats(count, 1), shift);
  const Array<float> first(std::vector<float>(place(count)), shift);
  const Array<float> second(std::vector<float>(place(count)), shift);
  std::vector<std::unique_ptr<Array<float>>> gradients;
  std::vector<cuda::Scaled> scaled;
  for (std::size_t i = 0; i < kFactors.size(); ++i) {
    gradients.push_back(
        std::make_unique<Array<float>>(random_floats(count, 2 + static_cast<unsigned>(i)), shift));
    scaled.push_back({gradients.back()->at(), kFactors[i]});
  }
  const auto bytes = static_cast<std::int64_t>(cuda::update_scratch(kind, scaled.size(), count));
  const Array<std::byte> scratch(bytes);
  const int states = math::info_of(kind).state_count;
  const cuda::UpdateArrays arrays{.values = values.at(),
                                  .first = states > 0 ? first.at() : nullptr,
                                  .second = states > 1 ? second.at() : nullptr,
                                  .count = count};
  for (int i = 0; i < 2; ++i) {
    cuda::apply_update(stream, kind, step, scaled, 0.5F, arrays, scratch.at());
  }
  return {values.values(stream), first.values(stream), second.values(stream)};
}

Outcome on_host(RuleKind kind, const math::UpdateStep& step, std::int64_t count) {
  Outcome outcome{random_floats(count, 1), std::vector<float>(place(count)),
                  std::vector<float>(place(count))};
  std::vector<std::vector<float>> gradients;
  std::vector<math::GradientView> views;
  for (unsigned i = 0; i < kFactors.size(); ++i) {
    gradients.push_back(random_floats(count, 2 + i));
    views.push_back({reinterpret_cast<const std::byte*>(gradients.back().data()), kFactors[i]});
  }
  const std::array<float*, 2> states = {outcome.first.data(), outcome.second.data()};
  const auto kept = static_cast<std::size_t>(math::info_of(kind).state_count);
  for (int i = 0; i < 2; ++i) {
    math::apply_update(kind, step, views, 0.5F, outcome.values, outcome.values,
                       std::span(states).first(kept));
  }
  return outcome;
}

}  // namespace

TEST_CASE("each rule's kernel has the bits of the CPU's loop", "[kernels]") {
  for (std::size_t i = 0; i < math::kRuleCount; ++i) {
    const auto kind = static_cast<RuleKind>(i);
    bool is_scaled_by_slice = false;
    math::with_rule(
        kind, [&](auto rule) { is_scaled_by_slice = math::kIsScaledBySlice<decltype(rule)>; });
    for (const bool l1 : {false, true}) {
      for (const std::int64_t shift : {0, 1}) {
        const std::int64_t count = 1027;
        INFO(math::info_of(kind).name << ", L1 " << l1 << ", shift " << shift);
        const Outcome device = on_device(kind, step_of(l1), count, shift);
        const Outcome host = on_host(kind, step_of(l1), count);
        CHECK(device.first == host.first);
        CHECK(device.second == host.second);
        if (!is_scaled_by_slice) {
          CHECK(device.values == host.values);
          continue;
        }
        // The norms are summed in another order.
        for (std::size_t k = 0; k < host.values.size(); ++k) {
          REQUIRE(device.values[k] == Approx(host.values[k]).epsilon(1e-5).margin(1e-7));
        }
      }
    }
  }
}
