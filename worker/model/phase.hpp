#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The layers that take part in a phase, in the file's order: those with no rule, those that an
/// include rule lets in, and those that no exclude rule keeps out. A rule holds where all that it
/// says of phase, level and stages holds; level and stages are those of the net's state.
/// Errors    invalid: a layer with include and exclude rules at once, or without a name; two layers
///           of the phase with one name
[[nodiscard]] Result<std::vector<pb::LayerParameter>> layers_of_phase(const pb::NetParameter& net,
                                                                      pb::Phase phase);

/// The stages that the rules of a net's layers name, in the file's order, each once.
[[nodiscard]] std::vector<std::string> stages_of(const pb::NetParameter& net);

}  // namespace taut::model
