#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/config/job_words.hpp"
#include "proto/control.pb.h"

namespace taut::cli {

/// What the summary of a finished run shows.
struct RunSummary {
  pb::JobStatus job;
  JobWords words{};
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;      // of each server
  double wall_s = 0;             // from the start of `tautline train` to the end of the job
  double first_iteration_s = 0;  // from its start to the first worker's first clock; 0: none
  std::string folder;
  std::string advice = {};                 // how to continue a run that ended early; empty: not
  std::vector<std::string> replaced = {};  // how processes ended that were started again
};

/// The summary as readable lines: table, staleness histogram, tests, checksum, folder.
[[nodiscard]] std::vector<std::string> summary_lines(const RunSummary& run);

enum class JsonLayout { kIndented, kOneLine };

/// The summary as one JSON object, for tools.
[[nodiscard]] std::string summary_json(const RunSummary& run,
                                       JsonLayout layout = JsonLayout::kIndented);

}  // namespace taut::cli
