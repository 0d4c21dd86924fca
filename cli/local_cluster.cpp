#include "cli/local_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/install_paths.hpp"
#include "common/files/file.hpp"
#include "common/http/login.hpp"
#include "common/keys/http_secret.hpp"
#include "common/keys/key_folder.hpp"
#include "common/stop_signal.hpp"
#include "common/unix_time.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReadyWithin = std::chrono::seconds(20);
constexpr std::size_t kLogLines = 12;
// A job that loses more processes than these has another problem.
constexpr std::size_t kReplacements = 100;
// A dead process is noticed after so long.
constexpr double kHeartbeatLimit_s = 5;

/// What every process of a local cluster has in common. Heartbeats are as frequent as the progress
/// display is drawn.
pb::ClusterConfig common_config(const std::string& coordinator,
                                const LocalClusterOptions& options) {
  pb::ClusterConfig config;
  config.set_coordinator_address(coordinator);
  config.set_heartbeat_interval_s(0.2);
  *config.mutable_records() = options.records;
  config.mutable_records()->set_folder(options.folder.string());
  return config;
}

/// The address after a word in a ready file; empty: the file does not have the word.
std::string address_in(const std::string& ready_text, std::string_view word) {
  std::istringstream lines(ready_text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(word) && line.substr(word.size()).starts_with(' ')) {
      return line.substr(word.size() + 1);
    }
  }
  return {};
}

}  // namespace

std::string last_lines(const fs::path& log, std::size_t count) {
  const auto text = read_file(log);
  if (!text) return {};
  std::vector<std::string> lines;
  std::istringstream stream(text.value());
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  std::string last;
  for (std::size_t i = lines.size() - std::min(lines.size(), count); i < lines.size(); ++i) {
    last += fmt::format("\n  | {}", lines[i]);
  }
  return last;
}

Result<void> LocalCluster::start_process(const fs::path& program, const std::string& name,
                                         KeyRole role, pb::ClusterConfig config,
                                         const fs::path& folder) {
  if (keys_) {
    TAUT_TRY(keys_->add(name, role));
    config.set_keys(keys_->folder().string());
  } else {
    config.set_insecure(true);
  }
  const fs::path config_file = folder / (name + ".textproto");
  TAUT_TRY(write_file_atomically(config_file, to_text(config)));
  const fs::path ready_file = folder / (name + ".ready");
  // One that an earlier run left in this folder names ports of long ago.
  std::error_code none;
  fs::remove(ready_file, none);
  const ChildProcess::Command& command = commands_.emplace_back(ChildProcess::Command{
      .name = name,
      .program = program,
      .arguments = {"--config", config_file.string(), "--ready-file", ready_file.string()},
      .log = folder / (name + ".log")});
  TAUT_TRY(auto child, ChildProcess::start(command));
  children_.push_back(std::move(child));
  return ok();
}

Result<void> LocalCluster::replace(std::size_t index) {
  ChildProcess& child = children_[index];
  ChildProcess::Command command = commands_[index];
  std::error_code none;
  // One that never was ready would end in the same way again.
  const bool was_ready = fs::exists(command.arguments.back(), none);
  if (!replaces_ || index == 0 || !was_ready || replaced_.size() >= kReplacements) {
    const std::string lines = last_lines(child.log(), kLogLines);
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} {}; the end of its log, {}:{}", child.name(), child.ending(),
                                  child.log().string(), lines.empty() ? " (empty)" : lines));
  }
  replaced_.push_back(fmt::format("{} {}", child.name(), child.ending()));
  // The log of each life is kept.
  command.log.replace_filename(fmt::format("{}-{}.log", command.name, replaced_.size() + 1));
  fs::remove(command.arguments.back(), none);
  TAUT_TRY(child, ChildProcess::start(command));
  return ok();
}

Result<void> LocalCluster::start_servers(const LocalClusterOptions& options) {
  TAUT_TRY(const fs::path program, sibling_program("tautline-server"));
  replaces_ = options.servers > 1;
  const auto start = [&](const std::string& name, std::uint32_t shards) -> Result<void> {
    // The first one hosts the coordinator and prints its address for the others.
    const bool is_first = children_.empty();
    pb::ClusterConfig config = common_config(is_first ? "127.0.0.1:0" : coordinator_, options);
    config.mutable_server()->set_name(name);
    config.mutable_server()->set_shards(shards);
    if (is_first) {
      pb::CoordinatorConfig& coordinator = *config.mutable_server()->mutable_coordinator();
      if (replaces_) {
        coordinator.set_heartbeat_limit_s(kHeartbeatLimit_s);
      } else {
        // Every worker is started here: if all are lost, none will join.
        coordinator.set_worker_wait_s(0);
      }
      // The run's folder has it all, and the coordinator ends with the run.
      coordinator.set_state_folder("");
      coordinator.set_run_folder("");
      if (!options.dashboard.empty()) config.mutable_http()->set_dashboard(options.dashboard);
    }
    TAUT_TRY(start_process(program, name, KeyRole::kServer, config, options.folder));
    if (is_first) {
      TAUT_TRY(await_coordinator(options.folder / (name + ".ready")));
    }
    return ok();
  };
  if (replaces_) {
    TAUT_TRY(start("coordinator", 0));
  }
  for (std::uint32_t i = 0; i < options.servers; ++i) {
    TAUT_TRY(start(fmt::format("server{}", i), options.shards));
  }
  return ok();
}

Result<void> LocalCluster::start_workers(const LocalClusterOptions& options) {
  TAUT_TRY(const fs::path program, sibling_program("tautline-worker"));
  for (std::uint32_t i = 0; i < options.workers; ++i) {
    pb::ClusterConfig config = common_config(coordinator_, options);
    const std::string name = fmt::format("worker{}", i);
    pb::WorkerConfig& worker = *config.mutable_worker();
    worker.set_name(name);
    worker.set_device(options.device);
    worker.set_threads(options.threads);
    worker.set_device_memory_budget(options.device_memory_budget);
    worker.set_overlap(options.overlap);
    if (!options.pins.empty()) worker.set_pin(options.pins[i]);
    if (!options.device_indices.empty()) {
      const auto& devices = options.device_indices[i % options.device_indices.size()];
      worker.mutable_device_index()->Add(devices.begin(), devices.end());
    }
    TAUT_TRY(start_process(program, name, KeyRole::kWorker, config, options.folder));
  }
  return ok();
}

Result<void> LocalCluster::await_coordinator(const fs::path& ready_file) {
  const TimePoint deadline = steady_now() + kReadyWithin;
  while (steady_now() < deadline) {
    std::error_code ignored;
    if (fs::exists(ready_file, ignored)) {
      TAUT_TRY(const std::string text, read_file(ready_file));
      coordinator_ = address_in(text, "coordinator");
      dashboard_ = address_in(text, "http");
      if (!coordinator_.empty()) return ok();
      return invalid(fmt::format("{}: names no coordinator", ready_file.string()));
    }
    TAUT_TRY(check());
    if (stop_signal() != 0) return make_error(ErrorCode::kClosed, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("{} was not ready in {:g} s; the end of its log:{}", children_.back().name(),
                  seconds(kReadyWithin), last_lines(children_.back().log(), kLogLines)));
}

Result<LocalCluster> LocalCluster::start(const LocalClusterOptions& options) {
  LocalCluster cluster;
  if (!options.insecure) {
    TAUT_TRY(cluster.keys_, RunKeys::make(options.folder / "keys"));
  }
  TAUT_TRY(cluster.start_servers(options));
  TAUT_TRY(cluster.start_workers(options));
  return cluster;
}

Result<Security> LocalCluster::user_security() const {
  if (!keys_) return Security::insecure();
  return taut::user_security(keys_->folder());
}

Result<std::string> LocalCluster::dashboard_link() const {
  std::string link = fmt::format("http://{}", dashboard_);
  if (!keys_) return link + "/";
  TAUT_TRY(const std::string secret, ensure_http_secret(keys_->folder()));
  return link + http::login_path(secret, unix_time_s());
}

Result<void> LocalCluster::check() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].running()) continue;
    TAUT_TRY(replace(i));
  }
  return ok();
}

}  // namespace taut::cli
