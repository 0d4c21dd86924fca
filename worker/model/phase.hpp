#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The layers that take part in a phase, in the file's order: layers without rules, layers with a
/// matching include rule, and layers with exclude rules none of which matches. A rule matches if
/// its phase, level and stages all do; level and stages are compared with the net's state.
/// Errors    invalid: a layer with include and exclude rules, or without a name; two layers of the
///           phase with the same name
[[nodiscard]] Result<std::vector<pb::LayerParameter>> layers_of_phase(const pb::NetParameter& net,
                                                                      pb::Phase phase);

/// The stages in the rules of a net's layers, in the file's order, each once.
[[nodiscard]] std::vector<std::string> stages_of(const pb::NetParameter& net);

}  // namespace taut::model
