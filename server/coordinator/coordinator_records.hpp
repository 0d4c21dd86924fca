#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// All that a coordinator knew.
struct CoordinatorRecords {
  pb::StoredCounters counters;
  std::map<JobId, pb::StoredJob> jobs;
};

/// What one step changed. A later change of the same record replaces an earlier one.
struct CoordinatorChanges {
  std::optional<pb::StoredCounters> counters;
  std::map<JobId, pb::StoredJob> jobs;
  std::set<JobId> forgotten;  // jobs that are kept no longer

  [[nodiscard]] bool empty() const { return !counters && jobs.empty() && forgotten.empty(); }
  void merge(CoordinatorChanges later) {
    if (later.counters) counters = std::move(later.counters);
    for (auto& [id, job] : later.jobs) jobs[id] = std::move(job);
    for (const JobId id : later.forgotten) {
      jobs.erase(id);
      forgotten.insert(id);
    }
  }
};

}  // namespace taut
