#pragma once

#include <string>

#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

struct Tolerance {
  double step = 1e-2;
  double relative = 1e-2;  // of the gradient
  double absolute = 1e-3;
};

/// Checks every gradient that the layer makes against central differences of the weighted sum of
/// its tops. A loss has weight 1 instead of a top gradient.
void check_gradients(LayerBench& bench, const Tolerance& tolerance = {}, bool is_loss = false);

/// Overload for a layer with one bottom.
void check_gradients(const std::string& definition, const Extents& bottom,
                     const Tolerance& tolerance = {});

}  // namespace taut::test
