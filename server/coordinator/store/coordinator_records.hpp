#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// The whole state of a coordinator.
struct CoordinatorRecords {
  pb::StoredCounters counters;
  std::map<JobId, pb::StoredJob> jobs;
};

/// The changes of one step. A later change of the same record replaces an earlier one.
struct CoordinatorChanges {
  std::optional<pb::StoredCounters> counters;
  std::map<JobId, pb::StoredJob> jobs;
  std::set<JobId> forgotten;  // jobs to delete

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
