#include <vector>

#include "common/check.hpp"
#include "common/math/codec.hpp"
#include "common/math/update_kernels.hpp"
#include "worker/engine/cpu/ops.hpp"

namespace taut::cpu {
namespace {

std::vector<math::GradientView> views_of(std::span<const DeviceGradient> gradients) {
  std::vector<math::GradientView> views;
  for (const DeviceGradient& gradient : gradients) {
    views.push_back(
        {reinterpret_cast<const std::byte*>(gradient.values.address()), gradient.scale});
  }
  return views;
}

}  // namespace

void apply_update(const DeviceUpdate& update, std::span<const DeviceGradient> gradients,
                  DeviceSpan<float> values, std::span<const DeviceSpan<float>> state) {
  std::vector<float*> arrays;
  for (const DeviceSpan<float>& array : state) arrays.push_back(array.address());
  const std::span<float> all(values.address(), values.size());
  math::apply_update(update.kind, update.step, views_of(gradients), update.scale, all, all, arrays);
}

void apply_average(std::span<const DeviceGradient> contributions, float share,
                   DeviceSpan<float> values) {
  const std::span<float> all(values.address(), values.size());
  math::apply_average(views_of(contributions), share, all, all);
}

void encode(const SliceEncoding& how, std::span<const float> values, std::span<float> out,
            std::span<float> state) {
  TAUT_CHECK(out.size_bytes() >= math::encoded_bytes(how.encoding, values.size()),
             "memory for what is encoded");
  math::encode(how.encoding, values, how.draw, std::as_writable_bytes(out).data(), state);
}

double sum_of_squares(std::span<const DeviceSpan<const float>> of) {
  double sum = 0;
  for (const DeviceSpan<const float>& part : of) {
    sum += math::sum_of_squares({part.address(), part.size()});
  }
  return sum;
}

}  // namespace taut::cpu
