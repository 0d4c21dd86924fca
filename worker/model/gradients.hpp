#pragma once

#include "worker/model/graph.hpp"

namespace taut::model {

/// Settles Blob::needs_gradient and Node::needs_backward of a graph that is complete otherwise: a
/// gradient is needed where a trained parameter is before and a loss after. In the test phase
/// nothing is.
void mark_gradients(Graph& graph);

}  // namespace taut::model
