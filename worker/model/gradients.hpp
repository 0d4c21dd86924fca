#pragma once

#include "common/result.hpp"
#include "worker/model/graph.hpp"

namespace taut::model {

/// Sets Blob::needs_gradient and Node::needs_backward of an otherwise complete graph: a gradient is
/// needed between a trained parameter and a loss; in the test phase nowhere.
/// Errors    invalid: a loss would need a gradient of a bottom for which its type has none, such as
///           labels that depend on trained parameters
[[nodiscard]] Result<void> mark_gradients(Graph& graph);

}  // namespace taut::model
