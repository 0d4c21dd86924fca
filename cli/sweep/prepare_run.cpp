#include "cli/sweep/prepare_run.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>

#include "cli/run_origin.hpp"
#include "common/files/file.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/run_json.hpp"
#include "proto/wire_version.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

// As `tautline lab` names it.
constexpr const char* kClusterFile = "cluster.textproto";

std::string processor() {
  std::string model = "unknown processor";
  if (const auto text = read_file("/proc/cpuinfo")) {
    std::istringstream lines(text.value());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("model name")) continue;
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  return fmt::format("{}, {} cores", model, std::thread::hardware_concurrency());
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_host() {
  utsname system{};
  uname(&system);
  return {{"build", build_name()},
          {"host", system.nodename},
          {"processor", processor()},
          {"system", fmt::format("{} {}", system.sysname, system.release)}};
}

Result<void> prepare_run(const fs::path& folder, const SweepRun& run, const Company& company) {
  std::error_code failed;
  // Files of an earlier attempt would be read as this one's.
  fs::remove_all(folder, failed);
  fs::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo, fmt::format("cannot make the run's folder {}: {}",
                                                  folder.string(), failed.message()));
  }
  nlohmann::ordered_json about = begin_run_json("sweep", run.job.name(), run_origin());
  about.update({{"folder", run.folder},
                {"seed", run.seed},
                {"workers", run.job.workers()},
                {"consistency", run.job.consistency().ShortDebugString()},
                {"load_average", load_average()},
                {"runs_at_once", company.runs},
                {"compute_threads", company.threads},
                {"cores", company.cores}});
  for (const auto& [what, value] : describe_host()) about[what] = value;
  TAUT_TRY(write_run_json(folder, about));
  if (!run.cluster.empty()) {
    TAUT_TRY(write_file_atomically(folder / kClusterFile, run.cluster));
  }
  return write_file_atomically(folder / "job.textproto", to_text(run.job));
}

Company company_of(const fs::path& folder) {
  Company company;
  const auto text = read_file(folder / "run.json");
  if (!text) return company;
  const auto about = nlohmann::json::parse(text.value(), nullptr, false);
  if (!about.is_object()) return company;
  company.runs = about.value("runs_at_once", 1U);
  company.threads = about.value("compute_threads", 0U);
  company.cores = about.value("cores", 0U);
  return company;
}

bool is_done(const fs::path& folder, const SweepRun& run) {
  const auto cluster = read_file(folder / kClusterFile);
  if ((cluster ? cluster.value() : std::string()) != run.cluster) return false;
  const auto job = read_file(folder / "job.textproto");
  const auto summary = read_file(folder / "summary.json");
  if (!job || !summary || job.value() != to_text(run.job)) return false;
  const auto parsed = nlohmann::json::parse(summary.value(), nullptr, false);
  return parsed.is_object() && parsed.value("state", "") == "done";
}

std::string failure_in(const fs::path& log) {
  constexpr std::array<std::string_view, 2> kBefore = {"tautline train: ", "tautline lab: "};
  const auto text = read_file(log);
  if (!text) return "it left no log";
  std::string last;
  std::string message;
  std::istringstream lines(text.value());
  for (std::string line; std::getline(lines, line);) {
    for (const std::string_view before : kBefore) {
      if (line.starts_with(before)) message = line.substr(before.size());
    }
    // The last lines of a process's log follow a message.
    if (line.starts_with("  | ") && line.find("rror") != std::string::npos) last = line.substr(4);
  }
  if (message.empty()) return "its log gives no reason";
  return last.empty() ? message : message + " " + last;
}

}  // namespace taut::cli
