#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "proto/control.pb.h"

namespace taut {

/// The parts of summary.json, which a command and a coordinator write of a run from what each of
/// them knows of it.

/// state  a word for what has become of the worker
[[nodiscard]] nlohmann::ordered_json worker_json(const std::string& name, const std::string& state,
                                                 const std::string& device,
                                                 const pb::Progress& progress);

/// reads  how many were how many clocks behind
[[nodiscard]] nlohmann::ordered_json staleness_json(
    const std::vector<std::pair<std::int64_t, std::uint64_t>>& reads);

/// The tests of a run by clock, the newest of each. Where the net has no Accuracy that is null,
/// since JSON has no NaN.
[[nodiscard]] nlohmann::ordered_json evaluations_json(
    const google::protobuf::RepeatedPtrField<pb::Evaluation>& tests, bool has_perplexity);

[[nodiscard]] nlohmann::ordered_json checkpoints_json(
    const google::protobuf::RepeatedPtrField<pb::KeptCheckpoint>& checkpoints);

}  // namespace taut
