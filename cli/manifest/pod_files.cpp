#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/manifest/manifest.hpp"
#include "cli/manifest/pod_paths.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

using Folders = std::vector<std::string>;

// Replaced when the pod starts.
constexpr const char* kPodIp = "POD_IP";
constexpr const char* kJobUid = "JOB_UID";
constexpr const char* kStateFolder = "/var/lib/tautline";
constexpr const char* kKeysFolder = "/run/tautline/keys";
constexpr double kStartWait_s = 600;  // until the coordinator's image is pulled
// All of a ConfigMap's data. Source: Kubernetes' documentation, "ConfigMaps".
constexpr std::size_t kMaxConfigMapBytes = std::size_t{1} << 20U;

pb::ClusterConfig common_config(const ManifestOptions& options, const Folders& folders) {
  pb::ClusterConfig config;
  config.set_coordinator_address(fmt::format("{}-coordinator:7600", options.name));
  config.set_keys(kKeysFolder);
  if (options.data_security != pb::ClusterConfig::CURVE) {
    config.set_data_security(options.data_security);
  }
  config.set_start_wait_s(kStartWait_s);
  config.set_preemption_notice_s(options.notice_s);
  config.mutable_records()->set_folder(fmt::format("{}/records", kRunsFolder));
  for (const std::string& folder : folders) config.add_allowed_folders(folder);
  return config;
}

/// Where the coordinator keeps its jobs, with which its next pod continues. On a claim, which may
/// serve many runs, each run has its own folder.
std::string state_folder(const ManifestOptions& options) {
  if (options.runs_claim.empty()) return fmt::format("{}/state", kStateFolder);
  return fmt::format("{}/state/{}-{}", kRunsFolder, options.name, kJobUid);
}

pb::ClusterConfig coordinator_config(const ManifestOptions& options, const Folders& folders) {
  pb::ClusterConfig config = common_config(options, folders);
  pb::ServerConfig& server = *config.mutable_server();
  server.set_name("coordinator");
  server.set_shards(0);
  pb::CoordinatorConfig& own = *server.mutable_coordinator();
  own.set_address(fmt::format("{}:7600", kPodIp));
  own.set_state_folder(state_folder(options));
  own.set_run_folder(fmt::format("{}/jobs", kRunsFolder));
  // The page can change jobs: it is reached only through kubectl port-forward.
  config.mutable_http()->set_dashboard("127.0.0.1:7680");
  return config;
}

/// Metrics of servers and workers show figures, and change nothing. Unless they are open, they need
/// a token and are reached only through kubectl port-forward.
void serve_metrics(const ManifestOptions& options, pb::ClusterConfig& config) {
  pb::HttpConfig& http = *config.mutable_http();
  http.set_metrics(fmt::format("{}:7680", options.open_metrics ? kPodIp : "127.0.0.1"));
  if (options.open_metrics) http.set_insecure(true);
}

pb::ClusterConfig server_config(const ManifestOptions& options, const Folders& folders) {
  pb::ClusterConfig config = common_config(options, folders);
  pb::ServerConfig& server = *config.mutable_server();
  server.set_listen(kPodIp);
  server.set_port_base(7601);
  server.set_shards(options.shards);
  serve_metrics(options, config);
  return config;
}

pb::ClusterConfig worker_config(const ManifestOptions& options, const Folders& folders) {
  pb::ClusterConfig config = common_config(options, folders);
  pb::WorkerConfig& worker = *config.mutable_worker();
  worker.set_device(options.gpus > 0 ? pb::WorkerConfig::CUDA : pb::WorkerConfig::CPU);
  worker.set_threads(options.threads);
  for (std::uint32_t i = 0; options.gpus > 1 && i < options.gpus; ++i) worker.add_device_index(i);
  serve_metrics(options, config);
  return config;
}

}  // namespace

void settle_in_pods(const ManifestOptions& options, pb::Job& job) {
  job.set_workers(options.workers);
  if (!options.data_claim.empty()) {
    job.clear_data();
    job.add_data()->set_folder(kDataFolder);
  }
  job.mutable_solver_param()->clear_snapshot_prefix();
  job.mutable_checkpoint()->set_folder(fmt::format("{}/checkpoints", kRunsFolder));
}

Result<Files> pod_files(const ManifestOptions& options, const pb::Job& job) {
  TAUT_TRY(const Folders folders, pod_folders(options, job));
  Files files{{"coordinator.textproto", to_text(coordinator_config(options, folders))},
              {"server.textproto", to_text(server_config(options, folders))},
              {"worker.textproto", to_text(worker_config(options, folders))},
              {"job.textproto", to_text(job)}};
  std::size_t bytes = 0;
  for (const auto& [name, text] : files) bytes += name.size() + text.size();
  if (bytes <= kMaxConfigMapBytes) return files;
  return invalid(fmt::format(
      "the job as a text has {} bytes, and a ConfigMap holds {}: submit it from outside with "
      "tautline submit --coordinator, over kubectl port-forward",
      files["job.textproto"].size(), kMaxConfigMapBytes));
}

}  // namespace taut::cli
