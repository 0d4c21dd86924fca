#pragma once

#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

struct Tolerance {
  double step = 1e-2;
  double relative = 1e-2;  // of the gradient
  double absolute = 1e-3;
};

/// Checks every gradient that the layer makes against central differences. A loss has weight 1
/// instead of a top gradient.
void check_gradients(LayerBench& bench, const Tolerance& tolerance = {}, bool is_loss = false);

}  // namespace taut::test
