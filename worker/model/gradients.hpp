#pragma once

#include <cstddef>
#include <vector>

#include "worker/model/graph.hpp"

namespace taut::model {

/// Settles Blob::needs_gradient and Node::needs_backward of a graph that is complete otherwise: a
/// gradient is needed where a trained parameter lies before and a loss after. In the test phase
/// nothing is.
/// differentiable_bottoms  for each node: its first so many bottoms can get a gradient
void mark_gradients(Graph& graph, const std::vector<std::size_t>& differentiable_bottoms);

}  // namespace taut::model
