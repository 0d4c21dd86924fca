#pragma once

#include <cstdint>
#include <string>

#include "server/coordinator/queue/worker_pool.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// How many idle workers a job needs to start, and how many it takes at most.
struct WorkerDemand {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};
/// limit  the user's quota, for a job that takes every worker; 0: none
[[nodiscard]] WorkerDemand worker_demand(const JobRecord& job, const Registry& registry,
                                         std::uint32_t limit);
/// What a job requires of each worker.
[[nodiscard]] PlaceDemand place_demand(const pb::Job& definition);
/// "2 GPUs and 8.0 GiB of memory"; empty if nothing is required.
[[nodiscard]] std::string words_of(const PlaceDemand& demand);
/// "8.0 GiB": a number of bytes for a message.
[[nodiscard]] std::string in_gib(std::uint64_t bytes);
/// How few workers a running job may be left with for a job of higher priority.
[[nodiscard]] std::uint32_t min_running_workers(const JobRecord& job);
/// Whether one more worker can join a running job.
[[nodiscard]] bool may_grow(const JobRecord& job);

/// Which processes must join before a job can start, as a message; empty if none.
[[nodiscard]] std::string waits_for(const JobRecord& job, const Registry& registry);

}  // namespace taut
