#include "cuda/convolution_key.hpp"

#include <fmt/format.h>

namespace taut::cuda {

const char* name_of(Numbers numbers) {
  switch (numbers) {
    case Numbers::kFloat32:
      return "float32";
    case Numbers::kTf32:
      return "TF32";
    case Numbers::kBfloat16:
      return "bfloat16";
    case Numbers::kFloat16:
      return "float16";
  }
  return "";
}

std::string ConvolutionKey::to_string() const {
  std::string text =
      fmt::format("convolution of {}x{}x{}x{} with {} kernels {}x{}, stride {}x{}, pad {}x{}", n, c,
                  h, w, top_c, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w);
  if (dilation_h != 1 || dilation_w != 1) {
    text += fmt::format(", dilation {}x{}", dilation_h, dilation_w);
  }
  if (group != 1) text += fmt::format(", {} groups", group);
  return fmt::format("{}, {}{}", text, name_of(numbers), deterministic ? ", deterministic" : "");
}

}  // namespace taut::cuda
