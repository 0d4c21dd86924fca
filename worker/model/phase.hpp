#pragma once

#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The layers that take part in a phase, in the file's order: those with no rule, those that an
/// include rule names, and those that no exclude rule names. A rule without a phase holds in both.
/// Errors    invalid: a layer with include and exclude rules at once, or without a name; two layers
///           of the phase with one name
[[nodiscard]] Result<std::vector<pb::LayerParameter>> layers_of_phase(const pb::NetParameter& net,
                                                                      pb::Phase phase);

}  // namespace taut::model
