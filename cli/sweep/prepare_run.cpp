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
#include "proto/config/job_state.hpp"
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

/// What run.json records about a run; an empty object if nothing.
nlohmann::json run_json_of(const fs::path& folder) {
  const auto text = read_file(folder / "run.json");
  if (!text) return nlohmann::json::object();
  auto parsed = nlohmann::json::parse(text.value(), nullptr, false);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

/// Whether a folder was prepared for a run's job. The job's text does not show it: the run's
/// process writes it again, with the paths that it has found.
bool is_made_for(const fs::path& folder, const SweepRun& run) {
  const nlohmann::json known = run_json_of(folder);
  if (const auto job = known.find("job_sha256"); job != known.end()) {
    return job->is_string() && job->get<std::string>() == job_hash(run.job);
  }
  const auto text = read_file(folder / "job.textproto");  // of an earlier version
  return text && text.value() == to_text(run.job);
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
  // Files of an earlier attempt would be mistaken for this one's.
  fs::remove_all(folder, failed);
  fs::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo, fmt::format("cannot make the run's folder {}: {}",
                                                  folder.string(), failed.message()));
  }
  nlohmann::ordered_json whole = begin_run_json("sweep", run.job.name(), run_origin());
  whole.update({{"folder", run.folder},
                {"seed", run.seed},
                {"workers", run.job.workers()},
                {"consistency", run.job.consistency().ShortDebugString()},
                {"job_sha256", job_hash(run.job)},
                {"load_average", load_average()},
                {"runs_at_once", company.runs},
                {"compute_threads", company.threads},
                {"cores", company.cores}});
  for (const auto& [what, value] : describe_host()) whole[what] = value;
  TAUT_TRY(write_run_json(folder, whole));
  if (!run.cluster.empty()) {
    TAUT_TRY(write_file_atomically(folder / kClusterFile, run.cluster));
  }
  return write_file_atomically(folder / "job.textproto", to_text(run.job));
}

Company company_of(const fs::path& folder) {
  Company company;
  const nlohmann::json known = run_json_of(folder);
  company.runs = known.value("runs_at_once", 1U);
  company.threads = known.value("compute_threads", 0U);
  company.cores = known.value("cores", 0U);
  return company;
}

bool is_done(const fs::path& folder, const SweepRun& run) {
  const auto cluster = read_file(folder / kClusterFile);
  if ((cluster ? cluster.value() : std::string()) != run.cluster) return false;
  const auto summary = read_file(folder / "summary.json");
  if (!summary || !is_made_for(folder, run)) return false;
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
