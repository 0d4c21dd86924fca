#pragma once

#include "worker/model/graph.hpp"

namespace taut::model {

/// Sets Blob::needs_gradient and Node::needs_backward of an otherwise complete graph: a gradient is
/// needed between a trained parameter and a loss; in the test phase nowhere.
void mark_gradients(Graph& graph);

}  // namespace taut::model
