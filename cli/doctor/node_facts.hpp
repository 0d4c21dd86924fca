#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/doctor/finding.hpp"
#include "proto/node_check.pb.h"

namespace taut::cli {

/// A path that several processes of a cluster open under one name.
struct NeededPath {
  enum class Use : std::uint8_t {
    kData,         // read by workers: each must have the same contents
    kWeights,      // read by servers and workers: the same
    kCheckpoints,  // written by servers: the same folder for all of them
    kShared,       // named by the user: the same folder for every process
  };
  Use use = Use::kShared;
  std::string path;
};

/// What a job requires of a cluster.
struct JobNeeds {
  std::string job;  // its name; empty: no job was given
  std::uint64_t parameter_bytes = 0;
  int states = 0;             // arrays of the same size that its update rule keeps
  std::uint32_t backups = 1;  // of each shard
  std::vector<NeededPath> paths;
};

/// The result of a check of every node.
struct ClusterFacts {
  std::vector<pb::NodeFacts> nodes;
  std::vector<std::string> silent;  // names of processes that have not answered
  double waited_s = 0;
};

// Each check judges one aspect of all nodes. They read nothing but the facts.

/// Which processes have answered, and whether they are of one release.
[[nodiscard]] Findings check_answers(const ClusterFacts& cluster, const std::string& own_build);
/// The ways from every process to every shard: connected, admitted, and how fast.
/// needs  of the job that will use the links
[[nodiscard]] Findings check_links(const ClusterFacts& cluster, const JobNeeds& needs);
/// Every node's clock, compared with the coordinator's.
[[nodiscard]] Findings check_clocks(const ClusterFacts& cluster);
/// Folders of keys: private, and the same keys admitted by every server.
[[nodiscard]] Findings check_node_keys(const ClusterFacts& cluster);
/// The paths of the job, and those that the user named.
[[nodiscard]] Findings check_paths(const ClusterFacts& cluster, const JobNeeds& needs);
/// Memory for the job's parameters, their states and replicas, on servers, hosts and devices.
[[nodiscard]] Findings check_memory(const ClusterFacts& cluster, const JobNeeds& needs);

/// "server0 (hosta)", or as much of it as is known.
[[nodiscard]] std::string title_of(const pb::NodeFacts& node);
/// "1 process", "4 processes".
[[nodiscard]] std::string processes(std::size_t number);
/// "a, b and 3 more".
[[nodiscard]] std::string some_of(const std::vector<std::string>& names);

}  // namespace taut::cli
