#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/unit/layers/layer_bench.hpp"

// The table of layers, family by family. One row is tested twice: a device's results against the
// CPU's (tests/gpu/against_cpu_test.cpp), and gradients against central differences
// (gradient_families_test.cpp).
namespace taut::test {

struct LayerCase {
  std::string definition;
  std::vector<Extents> bottoms;  // on both devices
  double tolerance = 2e-6;       // of the device: relative_error(), float32 if nothing else is said
  pb::Phase phase = pb::TRAIN;
  int classes = 0;       // the last bottom: labels of this many classes, instead of random numbers
  bool is_loss = false;  // its weight replaces a top gradient
  int tops = 1;
  /// Smaller bottoms for central differences, which take two forwards for each element; empty: not
  /// compared here.
  std::vector<Extents> small = {};
  std::size_t labels_from_end = 1;  // which bottom the labels are; 1: the last
};

[[nodiscard]] std::vector<LayerCase> linear_cases();
[[nodiscard]] std::vector<LayerCase> channel_cases();
[[nodiscard]] std::vector<LayerCase> pooling_cases();
[[nodiscard]] std::vector<LayerCase> elementwise_cases();
[[nodiscard]] std::vector<LayerCase> shape_cases();
[[nodiscard]] std::vector<LayerCase> loss_cases();
[[nodiscard]] std::vector<LayerCase> sequence_cases();

}  // namespace taut::test
