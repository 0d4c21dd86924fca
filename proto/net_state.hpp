#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace taut {

/// Whether a layer is part of a net in that state: one without rules, one that an include rule lets
/// in, one that no exclude rule keeps out. A rule holds where all that it says of phase, level and
/// stages holds.
/// Source    Caffe's include and exclude rules (its documentation of NetState)
[[nodiscard]] bool takes_part(const pb::LayerParameter& layer, const pb::NetState& state);

/// The state of a job's training net: the net's own, the solver's train_state put over it.
[[nodiscard]] pb::NetState train_state(const pb::Job& job);

/// Items of a worker's batch in training, as the net's text says it: of its first data layer.
/// Errors    invalid: no layer says it
[[nodiscard]] Result<std::int64_t> batch_of_text(const pb::Job& job);

}  // namespace taut
