#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/checks.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMebibyte = 1ULL << 20U;
// A timeline alone may have 64 MiB, and a checkpoint of a small net as much.
constexpr std::uint64_t kTooLittle = 64 * kMebibyte;
constexpr std::uint64_t kLittle = 1024 * kMebibyte;
constexpr std::uint64_t kFewFiles = 1000;

std::string size(std::uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / static_cast<double>(kMebibyte);
  if (mebibytes < 1024) return fmt::format("{:.0f} MiB", mebibytes);
  return fmt::format("{:.1f} GiB", mebibytes / 1024);
}

struct Folder {
  std::string what;
  fs::path path;
  std::string setting;
};

std::vector<Folder> folders_of(const pb::ClusterConfig& config) {
  std::vector<Folder> all{{"runs", "runs", "--output"}};
  const std::string& state = config.server().coordinator().state_folder();
  if (config.server().has_coordinator() && !state.empty()) {
    all.push_back({"coordinator's state", state, "server { coordinator { state_folder } }"});
  }
  const pb::RecordsConfig& records = config.records();
  const bool records_any = records.metrics() || records.tensorboard() || records.timeline();
  if (records_any && (config.has_worker() || config.has_records())) {
    all.push_back({"records", records.folder(), "records { folder }"});
  }
  if (!config.log().file().empty()) {
    const fs::path folder = fs::path(config.log().file()).parent_path();
    all.push_back({"log", folder.empty() ? "." : folder, "log { file }"});
  }
  return all;
}

Finding finding_of(const Folder& folder, const FolderFacts& facts) {
  const std::string place = fmt::format("{}: {}", folder.what, folder.path.string());
  const std::string elsewhere = fmt::format("name another with {}", folder.setting);
  if (!facts.unwritable.empty()) {
    return trouble("disk",
                   fmt::format("{} cannot be written: {}: {}", place, facts.nearest.string(),
                               facts.unwritable),
                   facts.free_bytes == 0 ? "make room on its disk, or " + elsewhere
                                         : elsewhere + ", or change who may write there");
  }
  const std::string found = fmt::format("{}, {} free", place, size(facts.free_bytes));
  const std::string room = fmt::format("make room on its disk, or {}", elsewhere);
  if (facts.free_files < kFewFiles) {
    return warning("disk", fmt::format("{}, and room for {} files", found, facts.free_files), room);
  }
  if (facts.free_bytes < kTooLittle) return trouble("disk", found, room);
  if (facts.free_bytes < kLittle) return warning("disk", found, room);
  return fine("disk", found);
}

}  // namespace

Findings check_shared_memory(const pb::ClusterConfig& config, Machine& machine) {
  if (!config.server().shared_memory() || !config.worker().shared_memory()) {
    return {fine("shared memory", "off, as the config says: payloads go through TCP")};
  }
  const auto tried = machine.shared_memory();
  if (tried) {
    return {fine("shared memory", "another process reads this one's memory through /proc")};
  }
  return {warning("shared memory", tried.error().message,
                  "processes of this machine use TCP instead, which costs them some time; in a "
                  "container let them have one /proc and one user, or say shared_memory: false")};
}

Findings check_disk(const pb::ClusterConfig& config, Machine& machine) {
  Findings findings;
  for (const Folder& folder : folders_of(config)) {
    findings.push_back(finding_of(folder, machine.folder(folder.path)));
  }
  return findings;
}

}  // namespace taut::cli
