#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "proto/control.pb.h"

namespace taut {

/// The parts of summary.json, which a command and a coordinator write about a run from what each of
/// them knows about it.

/// state  a word for the worker's final state
[[nodiscard]] nlohmann::ordered_json worker_json(const std::string& name, const std::string& state,
                                                 const std::string& device,
                                                 const pb::Progress& progress);

/// reads  clocks behind, and how many reads were that far behind
[[nodiscard]] nlohmann::ordered_json staleness_json(
    const std::vector<std::pair<std::int64_t, std::uint64_t>>& reads);

/// The tests of a run by clock, the newest of each. The accuracy is null if the net has no Accuracy
/// layer, since JSON has no NaN.
[[nodiscard]] nlohmann::ordered_json evaluations_json(
    const google::protobuf::RepeatedPtrField<pb::Evaluation>& tests, bool has_perplexity);

[[nodiscard]] nlohmann::ordered_json checkpoints_json(
    const google::protobuf::RepeatedPtrField<pb::KeptCheckpoint>& checkpoints);

}  // namespace taut
