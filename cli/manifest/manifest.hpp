#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace taut::cli {

/// The content of a job's manifests for Kubernetes.
struct ManifestOptions {
  std::string name;        // of the JobSet, and the first part of the other objects' names
  std::string name_space;  // empty: that of the context in which they are applied
  std::string image;
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;  // of each server
  std::uint32_t workers = 1;
  std::uint32_t gpus = 0;     // of each worker; 0: it computes on the CPU
  std::uint32_t threads = 1;  // compute threads of each worker, and its processors
  std::uint64_t server_memory = 4ULL << 30U;
  std::uint64_t worker_memory = 4ULL << 30U;
  std::string data_claim;  // a PersistentVolumeClaim with the data set, at /data
  std::string runs_claim;  // one for checkpoints and records, at /runs; empty: lost with the pods
  pb::ClusterConfig::DataSecurity data_security = pb::ClusterConfig::CURVE;
  std::uint32_t notice_s = 60;  // for a pod that must end
  bool open_metrics = false;    // of servers and workers: on the pods' addresses, without a login
  bool monitor = false;         // with a PodMonitor of the Prometheus operator; needs open metrics
};

/// A file of a Secret or a ConfigMap, by its key.
using Files = std::map<std::string, std::string>;

/// The keys of the cluster, as each kind of pod needs them: the files of its folder of keys.
struct ManifestKeys {
  Files coordinator;
  Files servers;
  Files workers;
  Files submit;
};

/// Where pods find their files.
inline constexpr const char* kDataFolder = "/data";
inline constexpr const char* kRunsFolder = "/runs";

/// Sets a job's data and checkpoints to where the pods see them.
void settle_in_pods(const ManifestOptions& options, pb::Job& job);

/// The configurations that the pods mount: coordinator, server and worker, and the job. In those of
/// daemons POD_IP stands for the pod's address, and JOB_UID for an id that is the same for all pods
/// that Kubernetes creates to replace each other, and for no others; both are known when a pod
/// starts.
[[nodiscard]] Result<Files> pod_files(const ManifestOptions& options, const pb::Job& job);

/// The manifests as YAML documents: ConfigMap, Secrets, Service, JobSet, and a PodMonitor.
/// keys    nullptr: the Secrets are not among them, and comments explain how to make them
/// Errors  invalid: something that a ConfigMap cannot hold; the job's data
[[nodiscard]] Result<std::string> manifests(const ManifestOptions& options, const pb::Job& job,
                                            const ManifestKeys* keys);

/// Makes keys for all pods if a folder has none yet, and reads them.
/// Errors  as the functions for keys
[[nodiscard]] Result<ManifestKeys> keys_for_pods(const std::string& folder, std::uint32_t servers,
                                                 std::uint32_t workers);

}  // namespace taut::cli
