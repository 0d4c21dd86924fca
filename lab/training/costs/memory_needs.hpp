#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "lab/training/costs/cluster_misfit.hpp"
#include "lab/training/topology.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"

namespace taut::lab {

/// Bytes that a job's processes take on their hosts for its parameters. Excludes what else a net
/// computes with, its data and the programs themselves.
struct ProcessMemory {
  /// Of each worker: four times the parameters (those that it computes with, the next ones, its
  /// gradients, and what is on its way to and from it), and what compressed updates left out. For a
  /// table by rows: those of a batch's rows.
  /// Source    of the four: docs/SCALE.md, "Memory of real processes"
  std::uint64_t worker = 0;
  /// Of each server, for its part of the parameters: the values, the rule's states, and the
  /// gradients of a clock (one for each worker in lock-step, else one); and the values and states
  /// of as many other servers' parts as each shard has backups. For a table by rows: what it
  /// reserves.
  std::uint64_t server = 0;
};

/// tables    as servers have them
/// backups   of each shard
/// Errors    as to_update_rule() and to_compression()
[[nodiscard]] Result<ProcessMemory> process_memory(const pb::Job& job,
                                                   std::span<const TableSpec> tables,
                                                   std::uint32_t servers, std::uint32_t backups);

/// The first host with less memory than the processes on it take; nullopt if all have enough, or do
/// not state how much they have.
/// Errors    as process_memory()
[[nodiscard]] Result<std::optional<ClusterMisfit>> host_misfit(const pb::Job& job,
                                                               std::span<const TableSpec> tables,
                                                               const pb::LabCluster& cluster,
                                                               const Topology& topology,
                                                               std::uint32_t servers);

/// The least number of bytes that the lab itself takes: in one process, where workers share what is
/// the same. What compression leaves out of updates is kept for each worker, whether it learns or
/// not.
/// learns  whether it has gradients
/// Errors  as to_update_rule() and to_compression()
[[nodiscard]] Result<std::uint64_t> lab_memory(const pb::Job& job,
                                               std::span<const TableSpec> tables, bool learns);

}  // namespace taut::lab
