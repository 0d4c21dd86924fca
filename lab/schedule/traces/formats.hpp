#pragma once

#include "common/result.hpp"
#include "lab/schedule/trace.hpp"
#include "lab/schedule/traces/trace_table.hpp"

namespace taut::schedule {

inline constexpr std::uint32_t kMaxWorkers = 65536;  // of one job

// Each reader adds the jobs of a table to the trace, in the table's order.

/// job_id,num_gpu,submit_time,iterations,model_name,duration,interval: times in seconds.
/// Source    Gu et al., "Tiresias", NSDI 2019: its simulator's traces
[[nodiscard]] bool is_tiresias(const TraceTable& table);
[[nodiscard]] Result<void> read_tiresias(const TraceTable& table, Trace& trace);

/// Tiresias' columns and batch_size, iteration_time and resource_time_0 to 2 (input, device,
/// network): times in milliseconds.
/// Source    Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022
[[nodiscard]] bool is_muri(const TraceTable& table);
[[nodiscard]] Result<void> read_muri(const TraceTable& table, Trace& trace);

/// timestamp,duration,num_gpus,gpu_time,cluster, not sorted; names no nets.
/// Source    Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
///           Workloads", ATC 2019, in the form of Qiao et al., "Pollux", OSDI 2021
[[nodiscard]] bool is_philly(const TraceTable& table);
[[nodiscard]] Result<void> read_philly(const TraceTable& table, Trace& trace);

/// name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,
/// scheduled_time: times in seconds; gpu_milli is a share of one device. Jobs without a device, and
/// those that never ran, are left out.
/// Source    Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
///           Fragmentation Gradient Descent", ATC 2023
[[nodiscard]] bool is_alibaba(const TraceTable& table);
[[nodiscard]] Result<void> read_alibaba(const TraceTable& table, Trace& trace);

}  // namespace taut::schedule
