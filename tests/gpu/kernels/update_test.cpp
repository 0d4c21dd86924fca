#include "cuda/kernels/update.hpp"

#include <cstring>
#include <memory>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using math::RuleKind;

namespace {

/// No field left at what it is without a rule.
math::UpdateStep full_step() {
  math::UpdateStep step;
  step.rate = 0.05F;
  step.decay = 0.001F;
  step.momentum = 0.9F;
  step.momentum2 = 0.99F;
  step.ahead = 1.5F;
  step.rms_decay = 0.97F;
  step.delta = 1e-6F;
  step.correction = 1.7F;
  step.correction2 = 0.8F;
  return step;
}

/// Gradients on the device, as they are on the host.
struct Gradients {
  explicit Gradients(std::int64_t count, unsigned number, std::int64_t shift) {
    for (unsigned g = 0; g < number; ++g) {
      values.push_back(random_floats(count, 100 + g));
      arrays.push_back(std::make_unique<Array<float>>(values.back(), shift));
      const float scale = g % 3 == 1 ? 0.25F : 1.0F;
      on_device.push_back({arrays.back()->at(), scale});
      on_host.push_back({reinterpret_cast<const std::byte*>(values.back().data()), scale});
    }
  }
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<Array<float>>> arrays;
  std::vector<cuda::Scaled> on_device;
  std::vector<math::GradientView> on_host;
};

std::vector<float> positive_floats(std::int64_t count, unsigned seed) {
  auto values = random_floats(count, seed);
  for (float& value : values) value = value * value + 0.01F;
  return values;
}

}  // namespace

TEST_CASE("every rule has the CPU's bits with all its fields set", "[kernels]") {
  for (std::size_t number = 0; number < math::kRuleCount; ++number) {
    const auto kind = static_cast<RuleKind>(number);
    for (const std::int64_t shift : {0, 1}) {
      on_each_schedule([&] {
        INFO("rule " << math::info_of(kind).name << ", shift " << shift);
        const TestStream stream;
        const std::int64_t count = 2051;
        const Gradients gradients(count, 3, shift);
        auto values = random_floats(count, 1);
        auto first = positive_floats(count, 2);
        auto second = positive_floats(count, 3);
        const Array<float> device_values(values, shift);
        const Array<float> device_first(first, shift);
        const Array<float> device_second(second, shift);
        const int states = math::info_of(kind).state_count;
        const Array<char> scratch(static_cast<std::int64_t>(cuda::update_scratch(kind, 3, count)));
        const cuda::UpdateArrays arrays{.values = device_values.at(),
                                        .first = states > 0 ? device_first.at() : nullptr,
                                        .second = states > 1 ? device_second.at() : nullptr,
                                        .count = count};
        cuda::apply_update(stream, kind, full_step(), gradients.on_device, 0.5F, arrays,
                           scratch.at());
        std::vector<float*> state;
        if (states > 0) state.push_back(first.data());
        if (states > 1) state.push_back(second.data());
        math::apply_update(kind, full_step(), gradients.on_host, 0.5F, values, values, state);
        const auto got = device_values.values(stream);
        // The norms of LAMB are added in another order.
        const float tolerance = kind == RuleKind::kLamb ? 1e-5F : 0.0F;
        for (std::size_t i = 0; i < got.size(); ++i) {
          CHECK(std::abs(got[i] - values[i]) <= tolerance);
        }
        if (states > 0) CHECK(device_first.values(stream) == first);
        if (states > 1) CHECK(device_second.values(stream) == second);
      });
    }
  }
}

TEST_CASE("more gradients than one launch takes are summed before", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const std::int64_t count = 1001;
    const Gradients gradients(count, 11, 0);
    auto values = random_floats(count, 1);
    const Array<float> device_values(values);
    const Array<char> scratch(
        static_cast<std::int64_t>(cuda::update_scratch(RuleKind::kSgd, 11, count)));
    cuda::apply_update(stream, RuleKind::kSgd, full_step(), gradients.on_device, 1.0F,
                       {.values = device_values.at(), .count = count}, scratch.at());
    math::apply_update(RuleKind::kSgd, full_step(), gradients.on_host, 1.0F, values, values, {});
    const auto got = device_values.values(stream);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - values[i]) < 1e-6F);
  });
}

TEST_CASE("an average has the CPU's bits", "[kernels]") {
  for (const unsigned number : {1U, 3U, 8U}) {
    on_each_schedule([number] {
      const TestStream stream;
      const std::int64_t count = 1001;
      const Gradients contributions(count, number, 1);
      auto values = random_floats(count, 1);
      const Array<float> device_values(values, 1);
      cuda::apply_average(stream, contributions.on_device, 0.3F, device_values.at(), count,
                          nullptr);
      math::apply_average(contributions.on_host, 0.3F, values, values);
      CHECK(device_values.values(stream) == values);
    });
  }
}
