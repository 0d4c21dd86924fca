#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator_state.pb.h"

namespace taut {

/// Where a job's records are.
struct RunPlaces {
  std::string folder;
  /// A process's name, and HOST:PATH of the records that it wrote itself.
  std::vector<std::pair<std::string, std::string>> records;
};

/// The summary of an ended job as JSON, with the keys of `tautline train`'s summary.json.
[[nodiscard]] std::string run_summary_json(const pb::StoredJob& job, const RunPlaces& places);

}  // namespace taut
