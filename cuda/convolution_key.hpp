#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace taut::cuda {

/// The number format of a product's factors, and how they are multiplied. Sums are float32.
enum class Numbers : std::uint8_t { kFloat32, kTf32, kBfloat16, kFloat16 };

[[nodiscard]] constexpr bool is_half(Numbers numbers) {
  return numbers == Numbers::kBfloat16 || numbers == Numbers::kFloat16;
}
[[nodiscard]] const char* name_of(Numbers numbers);

/// Everything that the choice of a convolution's algorithm depends on, within one device: two
/// layers with the same key share a search.
struct ConvolutionKey {
  std::int64_t n = 0, c = 0, h = 0, w = 0;  // bottom
  std::int64_t top_c = 0, top_h = 0, top_w = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t group = 1;
  Numbers numbers = Numbers::kFloat32;
  bool deterministic = false;
  bool to_bottom = true;            // whether the bottom's gradient is needed
  std::size_t workspace_limit = 0;  // bytes
  /// Algorithms are timed, which takes memory in addition to the operands; otherwise cuDNN's
  /// estimate decides.
  bool is_measured = false;

  friend auto operator<=>(const ConvolutionKey&, const ConvolutionKey&) = default;
  /// For errors: "convolution of 64x1x28x28 with 20 kernels 5x5, stride 1x1, pad 0x0, float32"
  [[nodiscard]] std::string to_string() const;
};

}  // namespace taut::cuda
