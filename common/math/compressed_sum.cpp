#include <algorithm>
#include <array>
#include <cmath>

#include "common/math/feedback_codec.hpp"
#include "common/math/low_rank_codec.hpp"
#include "common/math/update_kernels.hpp"
#include "common/math/update_loops.hpp"

namespace taut::math {
namespace {

bool add_kept(const GradientView& gradient, std::size_t begin, std::span<float> sum) {
  const Encoding& encoding = gradient.encoding;
  const auto add = encoding.codec == Codec::kTopK ? feedback::add_top_k : feedback::add_random_k;
  return add(gradient.bytes, gradient.count, encoding.every, begin, gradient.scale, sum);
}

/// Sums only what was kept, if that has the bits of a sum of whole parts: what was left out must
/// then add +0 to each element. Returns false if it does not; `sum` is then invalid.
bool sum_sparse(std::span<const GradientView> gradients, std::size_t begin, std::span<float> sum) {
  const auto adds_positive_zeros = [](const GradientView& gradient) {
    return gradient.encoding.is_sparse() && std::isfinite(gradient.scale) &&
           !std::signbit(gradient.scale);
  };
  if (!std::ranges::all_of(gradients, adds_positive_zeros)) return false;
  std::ranges::fill(sum, 0.0F);
  return std::ranges::all_of(
      gradients, [&](const GradientView& gradient) { return add_kept(gradient, begin, sum); });
}

/// Decodes a gradient into a block, and then adds it.
void sum_read(const GradientView& gradient, std::size_t begin, bool is_first,
              std::span<float> sum) {
  alignas(64) std::array<float, kGradientBlock> decoded;
  const std::byte* from = gradient.bytes + begin * sizeof(float);
  if (gradient.encoding.codec != Codec::kFloat32) {
    read_gradient(gradient, begin, std::span(decoded).first(sum.size()));
    from = std::as_bytes(std::span(decoded)).data();
  }
  const auto take = is_first ? loops::set_scaled : loops::add_scaled;
  take(sum.data(), from, gradient.scale, sum.size());
}

}  // namespace

void sum_gradients(std::span<const GradientView> gradients, std::size_t begin,
                   std::span<float> sum) {
  if (sum_sparse(gradients, begin, sum)) return;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const GradientView& gradient = gradients[i];
    if (gradient.encoding.codec == Codec::kLowRank) {
      const low_rank::Shape shape(gradient.encoding, gradient.count);
      low_rank::sum_product(shape, gradient.bytes, begin, gradient.scale, i == 0, sum);
    } else {
      sum_read(gradient, begin, i == 0, sum);
    }
  }
}

}  // namespace taut::math
