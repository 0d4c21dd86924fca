#include "lab/training/costs/memory_needs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/ssp/compression.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"
#include "server/tables/table_memory.hpp"

namespace taut::lab {
namespace {

constexpr double kGib = 1UL << 30U;

/// Of the tables not kept by rows.
std::uint64_t values_of(std::span<const TableSpec> tables) {
  std::uint64_t values = 0;
  for (const TableSpec& table : tables) values += table.rows ? 0 : table.count();
  return values;
}

/// What a worker's updates leave out for its later ones.
std::uint64_t left_out_of(std::span<const TableSpec> tables, const Compression& compression) {
  std::uint64_t values = 0;
  for (const TableSpec& table : tables) {
    if (!table.rows) values += math::state_values(compression.of_push(table), table.count());
  }
  return values;
}

/// Of the rows that a batch names, in all tables kept by rows.
std::uint64_t batch_values_of(std::span<const TableSpec> tables) {
  std::uint64_t values = 0;
  for (const TableSpec& table : tables) {
    if (table.rows) values += table.rows->clock_rows * table.width();
  }
  return values;
}

/// What a server reserves for its part of the tables kept by rows.
std::uint64_t row_bytes_of(std::span<const TableSpec> tables, const math::UpdateRule& rule,
                           std::uint32_t servers, std::uint32_t workers) {
  std::uint64_t bytes = 0;
  for (const TableSpec& table : tables) {
    if (!table.rows) continue;
    const std::uint64_t buckets = (table.rows->buckets + servers - 1) / servers;
    bytes += server::row_table_bytes(table, buckets, static_cast<std::size_t>(rule.state_count()),
                                     workers);
  }
  return bytes;
}

/// How many of a clock's gradients a server holds at once.
std::uint64_t gradients_of(const pb::Job& job) {
  // They are summed in the workers' order.
  return job.consistency().mode() == pb::Consistency::BSP ? job.workers() : 1;
}

std::string processes_text(std::uint64_t workers, std::uint64_t servers) {
  const auto counted = [](std::uint64_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  if (servers == 0) return counted(workers, "worker");
  if (workers == 0) return counted(servers, "server");
  return counted(workers, "worker") + " and " + counted(servers, "server");
}

}  // namespace

Result<ProcessMemory> process_memory(const pb::Job& job, std::span<const TableSpec> tables,
                                     std::uint32_t servers, std::uint32_t backups) {
  TAUT_TRY(const math::UpdateRule rule, to_update_rule(job));
  TAUT_TRY(const Compression compression, to_compression(job));
  const std::uint64_t values = values_of(tables);
  const std::uint64_t kept = 1 + static_cast<std::uint64_t>(rule.state_count());
  const std::uint64_t part = (values + servers - 1) / servers;
  const std::uint64_t rows = row_bytes_of(tables, rule, servers, job.workers());
  ProcessMemory memory;
  memory.worker =
      sizeof(float) * (4 * (values + batch_values_of(tables)) + left_out_of(tables, compression));
  memory.server = sizeof(float) * part * (kept + gradients_of(job)) + rows;
  memory.server += std::min(backups, servers - 1) * (sizeof(float) * part * kept + rows);
  return memory;
}

Result<std::optional<ClusterMisfit>> host_misfit(const pb::Job& job,
                                                 std::span<const TableSpec> tables,
                                                 const pb::LabCluster& cluster,
                                                 const Topology& topology, std::uint32_t servers) {
  const pb::LabControl& control = cluster.control();
  const std::uint32_t backups =
      control.replication_interval() > 0 ? control.replication_copies() : 0;
  TAUT_TRY(const ProcessMemory each, process_memory(job, tables, servers, backups));
  std::vector<std::uint64_t> workers(topology.hosts().size());
  std::vector<std::uint64_t> server_count(topology.hosts().size());
  for (std::uint32_t i = 0; i < job.workers(); ++i) {
    ++workers[topology.host_of(topology.worker_node(i))];
  }
  for (std::uint32_t i = 0; i < servers; ++i) {
    ++server_count[topology.host_of(topology.server_node(i))];
  }
  for (std::size_t i = 0; i < topology.hosts().size(); ++i) {
    const Topology::Host& host = topology.hosts()[i];
    const auto kind = std::ranges::find(cluster.host(), host.kind, &pb::LabHost::name);
    if (!kind->has_memory_gib()) continue;
    const auto needs =
        static_cast<double>(workers[i] * each.worker + server_count[i] * each.server) / kGib;
    if (needs <= kind->memory_gib()) continue;
    return ClusterMisfit{
        .steps = {{"host", static_cast<int>(kind - cluster.host().begin())}, {"memory_gib"}},
        .what = fmt::format("host \"{}\" has a memory_gib of {:g}, too little for {}: parameters, "
                            "states and replicas of {} values take {:.3g} GiB; give it more, or "
                            "fewer of them",
                            host.name, kind->memory_gib(),
                            processes_text(workers[i], server_count[i]), values_of(tables), needs)};
  }
  return std::nullopt;
}

Result<std::uint64_t> lab_memory(const pb::Job& job, std::span<const TableSpec> tables,
                                 bool learns) {
  // Measured: 994 MiB for 10,000 workers and 16 servers that do not learn.
  constexpr std::uint64_t kOfWorker = 96UL << 10U;
  TAUT_TRY(const Compression compression, to_compression(job));
  // Each worker encodes its own updates, even of zeros.
  const std::uint64_t left_out = sizeof(float) * left_out_of(tables, compression);
  const std::uint64_t processes = (kOfWorker + left_out) * job.workers();
  if (!learns) return processes;
  TAUT_TRY(const math::UpdateRule rule, to_update_rule(job));
  const std::uint64_t kept = 1 + static_cast<std::uint64_t>(rule.state_count());
  // Rows are created as they are updated: only those that workers compute with are known.
  return processes + sizeof(float) * (values_of(tables) * (job.workers() + kept) +
                                      batch_values_of(tables) * job.workers());
}

}  // namespace taut::lab
