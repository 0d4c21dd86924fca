#include "worker/engine/data_fault.hpp"

#include <fmt/format.h>

namespace taut {

std::string label_fault(float label, std::size_t position, std::int64_t classes) {
  return fmt::format(
      "label {} at position {} of the batch is not one of the {} classes 0 to {}; check the data "
      "set's labels and the last layer's num_output",
      label, position, classes, classes - 1);
}

std::string row_fault(float number, std::size_t position, std::int64_t rows) {
  return fmt::format(
      "number {} at position {} of the batch is not in [0, {}); check the data and "
      "embed_param.input_dim",
      number, position, rows);
}

std::string overflow_fault(std::size_t position, std::int64_t largest) {
  return fmt::format(
      "element {} of a convolution's result is beyond float16's {}: the training has diverged, or "
      "needs precision BFLOAT16 or TF32",
      position, largest);
}

}  // namespace taut
