#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/job_options.hpp"
#include "cli/node/node_place.hpp"
#include "proto/cluster.pb.h"

namespace taut::cli {

/// The options of `tautline node`, the same on every node except for `host` and `rack`.
struct NodeOptions {
  std::string job_file;  // empty: the nodes wait for jobs that are submitted
  JobOptions job;
  std::uint32_t servers_per_node = 1;
  std::uint32_t shards = 1;                       // of each server
  std::optional<std::uint32_t> workers_per_node;  // nullopt: one for each device, at least one
  pb::WorkerConfig::Device device = pb::WorkerConfig::AUTO;
  std::uint32_t threads = 1;
  std::uint64_t device_memory_budget = 0;
  pb::ClusterConfig::DataSecurity data_security = pb::ClusterConfig::CURVE;
  std::string output;   // the folder that all nodes see; empty: named after the engine's run
  std::string host;     // by which the others reach this node; empty: determined
  std::string rack;     // of this node; empty: as the engine reports
  double wait_s = 300;  // for every node to join
  bool check = false;   // all nodes are examined before the job starts
  double save_s = 25;   // for the checkpoint of a run that must end
};

/// Runs this node's part of the run: its servers and workers, and on rank 0 the coordinator and the
/// job. Returns the exit status, the same on every node. Thread: main.
int run_node(const NodeOptions& options, const NodePlace& place);

}  // namespace taut::cli
