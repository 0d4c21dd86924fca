#pragma once

#include <cstdint>
#include <string_view>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace taut {

/// Whether a layer is part of a net in that state: it has no rules, an include rule matches, or no
/// exclude rule matches. A rule matches if everything that it gives of phase, level and stages
/// matches.
/// Source    Caffe's include and exclude rules (its documentation of NetState)
[[nodiscard]] bool takes_part(const pb::LayerParameter& layer, const pb::NetState& state);

/// The state of a job's training net: the net's own, overridden by the solver's train_state.
[[nodiscard]] pb::NetState train_state(const pb::Job& job);

/// How many items a worker's batch has in training, from the first data layer in the net's text.
/// Errors    invalid: no layer gives it
[[nodiscard]] Result<std::int64_t> batch_of_text(const pb::Job& job);

/// The layer of a job's training net whose rows the servers keep as the table of this name;
/// nullptr if absent.
[[nodiscard]] const pb::LayerParameter* layer_of_rows(const pb::Job& job, std::string_view table);

}  // namespace taut
