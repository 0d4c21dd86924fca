#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lab/network.hpp"
#include "lab/training/agenda.hpp"
#include "lab/training/costs/codec_costs.hpp"
#include "lab/training/costs/compute_times.hpp"
#include "lab/training/costs/cost_store.hpp"
#include "lab/training/host_cores.hpp"
#include "lab/training/meter.hpp"
#include "lab/training/page_allocator.hpp"
#include "lab/training/records/playback.hpp"
#include "lab/training/records/steady_pace.hpp"
#include "lab/training/records/virtual_timeline.hpp"
#include "lab/training/run_disk.hpp"
#include "lab/training/shared_values.hpp"
#include "lab/training/topology.hpp"
#include "proto/cluster.pb.h"
#include "proto/lab.pb.h"
#include "worker/engine/backend.hpp"
#include "worker/replica.hpp"

namespace taut::lab {

/// What the processes of one training have in common: time, the network, the machines, and what
/// every worker's process would otherwise open identically for itself.
struct World {
  static constexpr Bytes kMaxFreeUpdates{256UL << 20U};  // that are kept for reuse

  Agenda agenda;
  std::unique_ptr<Topology> topology;
  std::unique_ptr<sim::Network> network;
  std::vector<std::unique_ptr<HostCores>> machines;  // by host
  std::vector<std::unique_ptr<HostCores>> devices;   // by device of the topology
  pb::ClusterConfig config;                          // of every worker, except its name
  pb::LabCosts costs;
  CodecCosts codecs;  // those of `costs`
  /// Makes a process do what is due.
  std::function<void(sim::NodeId node)> step_soon;
  Backend* backend = nullptr;
  const worker::JobAssets* assets = nullptr;
  const ComputeTimes* times = nullptr;
  std::shared_ptr<Net> net;            // of all workers; nullptr: each has its own
  std::unique_ptr<CostMemory> memory;  // nullptr: they learn
  std::unique_ptr<RunDisk> disk;       // nullptr: no checkpoint is written
  ValuePool values;                    // that workers have read
  std::shared_ptr<BufferPool> updates =
      std::make_shared<BufferPool>(kMaxFreeUpdates, page_allocator());
  VirtualTimeline* timeline = nullptr;  // nullptr: none is kept
  Playback* playback = nullptr;         // nullptr: none is kept
  Meter* meter = nullptr;               // nullptr: nothing is measured
  std::optional<SteadyPace> pace;       // of the workers; set before they start
  double shards_us = 0;                 // of processors, that messages took at shards so far
  double clients_us = 0;                // and at workers

  [[nodiscard]] TimePoint now() const { return network->now(); }
  [[nodiscard]] HostCores& machine_of(sim::NodeId node) {
    return *machines[topology->host_of(node)];
  }
  /// What a process computes on.
  [[nodiscard]] HostCores& compute_of(sim::NodeId node) {
    const auto device = topology->device_of(node);
    return device ? *devices[*device] : machine_of(node);
  }
};

/// Bytes of a message's frames.
[[nodiscard]] inline std::uint64_t bytes_of(const Message& message) {
  std::uint64_t bytes = 0;
  for (const Frame& frame : message.frames) bytes += frame.size();
  return bytes;
}

/// The time that a message takes at the process that sends or receives it.
[[nodiscard]] inline double message_us(double of_each, double of_mib, std::uint64_t bytes) {
  constexpr double kMib = 1UL << 20U;
  return of_each + of_mib * static_cast<double>(bytes) / kMib;
}

}  // namespace taut::lab
