#pragma once

#include <cstdint>
#include <string>

#include "tests/twin/libraries/arithmetic.hpp"

// Convolutions as cuDNN's documentation defines them (cross correlation, N, C, H, W), by gathering
// each image into a matrix.
namespace taut::twin::dnn {

struct ConvolutionShape {
  int n = 0, c = 0, h = 0, w = 0;       // bottom
  int top_c = 0, top_h = 0, top_w = 0;  // top
  int kernel_h = 0, kernel_w = 0;
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int groups = 1;

  [[nodiscard]] std::size_t bottom_count() const;
  [[nodiscard]] std::size_t top_count() const;
  [[nodiscard]] std::size_t weight_count() const;
  /// "2x3x8x8 under 4 kernels 3x3"
  [[nodiscard]] std::string to_string() const;
};

/// All three: out = alpha * result + beta * out; where beta is 0 out is not read.
struct Scaling {
  float alpha = 1;
  float beta = 0;
};

/// stored  the numbers of all operands in memory
/// factor  what they are rounded to before they are multiplied
struct Precision {
  Format stored = Format::kFloat32;
  Format factor = Format::kFloat32;
};

void convolve(const ConvolutionShape& shape, Precision precision, Scaling scaling,
              const void* bottom, const void* weights, void* top);
void convolve_to_bottom(const ConvolutionShape& shape, Precision precision, Scaling scaling,
                        const void* top_gradient, const void* weights, void* bottom_gradient);
/// first_image  where the sum over images starts; it goes round from there
void convolve_to_weights(const ConvolutionShape& shape, Precision precision, Scaling scaling,
                         const void* bottom, const void* top_gradient, void* weight_gradient,
                         int first_image = 0);

}  // namespace taut::twin::dnn
