#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "proto/control.pb.h"

namespace taut::dashboard {

/// The content of an update of the page: all jobs in brief, one job in full, servers, log. Lists of
/// workers are columns, so that a thousand of them stay small. Unbounded slack is null.
/// job  the one in full; 0: the running one, or else the newest
[[nodiscard]] nlohmann::json status_json(const pb::StatusReply& status, double unix_time_s,
                                         std::uint64_t job = 0);

/// The job that status_json() shows in full; nullptr if there is none.
[[nodiscard]] const pb::JobStatus* shown_job(const pb::StatusReply& status, std::uint64_t job = 0);

/// Figures over all workers that are not lost.
struct JobFigures {
  std::int64_t slowest = 0;
  std::int64_t fastest = 0;
  double loss = 0;  // mean over those that have started
};
[[nodiscard]] JobFigures figures_of(const pb::JobStatus& job);

/// A slack as JSON; null if unbounded.
[[nodiscard]] nlohmann::json slack_json(std::int64_t slack);
/// Pairs of a staleness and the number of reads that had it, over all workers.
[[nodiscard]] nlohmann::json staleness_of(const pb::JobStatus& job);

/// As text; invalid UTF-8 is replaced, since names come from peers.
[[nodiscard]] std::string to_text(const nlohmann::json& json);

}  // namespace taut::dashboard
