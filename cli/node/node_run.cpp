#include "cli/node/node_run.hpp"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/commands/shared_options.hpp"
#include "cli/doctor/machine.hpp"
#include "cli/node/following_node.hpp"
#include "cli/node/leading_node.hpp"
#include "cli/run_folder.hpp"
#include "common/system/stop_signal.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// The folder in which the nodes meet. Errors: several nodes, and no name that all of them know.
Result<fs::path> folder_of(const NodeOptions& options, const NodePlace& place) {
  const std::string job =
      options.job_file.empty() ? "cluster" : fs::path(options.job_file).stem().string();
  if (!options.output.empty()) return fs::absolute(options.output).lexically_normal();
  if (!place.run.empty()) return fs::absolute("runs") / (place.run + "-" + job);
  if (place.count == 1) return make_run_folder({.requested = {}, .job_name = job, .keep = {}});
  return invalid(fmt::format(
      "{} gives this run of {} nodes no name: --output must name a folder that all of them see",
      place.engine, place.count));
}

std::uint32_t device_count(const NodeOptions& options) {
  if (options.device == pb::WorkerConfig::CPU) return 0;
  return static_cast<std::uint32_t>(system_gpu().devices.size());
}

int end_status(const Result<int>& ended) {
  if (ended) return ended.value();
  if (stop_signal() != 0) return 128 + stop_signal();
  return kFailed;
}

}  // namespace

int run_node(const NodeOptions& options, const NodePlace& place) {
  // Slurm's --signal and mpirun forward SIGUSR1: like SIGTERM, it means to save and leave.
  watch_stop_signals({SIGUSR1});
  auto folder = folder_of(options, place);
  if (!folder) return fail("node", folder.error().message);
  NodeShare share = share_of(options, place, device_count(options));
  const auto settle = [&](const Result<int>& ended) {
    if (!ended) {
      fail("node", place.count == 1
                       ? ended.error().message
                       : fmt::format("rank {}: {}", place.rank, ended.error().message));
    }
    return end_status(ended);
  };
  if (place.rank > 0) {
    FollowingNode node(options, place, std::move(share), std::move(folder).value());
    const int status = settle(node.run());
    node.end();
    return status;
  }
  const bool is_own = options.output.empty();
  const fs::path run_folder = folder.value();
  LeadingNode node(options, place, std::move(share), std::move(folder).value());
  const int status = settle(node.run());
  node.end(status);
  // A job that cannot be read must leave nothing behind.
  std::error_code none;
  if (is_own) fs::remove(run_folder, none);
  return status;
}

}  // namespace taut::cli
