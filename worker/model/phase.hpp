#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The layers that take part in a phase, in the file's order: those without rules, those with a
/// matching include rule, and those without a matching exclude rule. A rule matches if all of its
/// phase, level and stages do; level and stages are those of the net's state.
/// Errors    invalid: a layer with include and exclude rules, or without a name; two layers of the
///           phase with the same name
[[nodiscard]] Result<std::vector<pb::LayerParameter>> layers_of_phase(const pb::NetParameter& net,
                                                                      pb::Phase phase);

/// The stages in the rules of a net's layers, in the file's order, each once.
[[nodiscard]] std::vector<std::string> stages_of(const pb::NetParameter& net);

}  // namespace taut::model
