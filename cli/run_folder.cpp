#include "cli/run_folder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <regex>
#include <string_view>
#include <system_error>
#include <vector>

#include "proto/formats/checkpoint_manifest.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

Error cannot_make(const fs::path& folder, const std::error_code& why) {
  return make_error(ErrorCode::kIo, fmt::format("cannot make the run's folder {}: {}; name another "
                                                "with --output",
                                                folder.string(), why.message()));
}

/// The name with everything that is special in a path replaced.
std::string as_file_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return name.empty() ? "job" : name;
}

/// "server0.log", "worker0-2.log" for one that was restarted, "node1-worker0.ready".
bool is_process_file(const std::string& name) {
  static const std::regex kProcessFile(
      R"((node[0-9]+-)?(coordinator|(server|worker)[0-9]+)(-[0-9]+)?\..*)");
  return std::regex_match(name, kProcessFile);
}

/// "job1-worker0": a worker's records.
bool is_records_folder(const std::string& name) {
  const std::size_t end = name.find_first_not_of("0123456789", 3);
  return name.starts_with("job") && end != std::string::npos && end > 3 && name[end] == '-';
}

bool is_run_file(const std::string& name) {
  static const std::vector<std::string_view> known{
      "job.textproto", "run.json",      "summary.json",  "cluster.textproto",
      "lab.log",       "timeline.json", "playback.json", "report.html"};
  return std::ranges::find(known, name) != known.end() || is_process_file(name) ||
         name.starts_with("vocabulary_");
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    found.push_back(entry->path());
  }
  return found;
}

void remove_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& one : entries_of(folder)) {
    const bool unfinished = one.filename().string().find(".part-") != std::string::npos;
    if (unfinished || fs::exists(one / kManifestName, ignored)) fs::remove_all(one, ignored);
  }
}

/// Removes what a run leaves, and nothing else.
void remove_run(const fs::path& folder, const fs::path& keep) {
  std::error_code ignored;
  for (const fs::path& one : entries_of(folder)) {
    const std::string name = one.filename().string();
    if (is_run_file(name)) fs::remove(one, ignored);
    if (is_records_folder(name) && fs::is_directory(one, ignored)) fs::remove_all(one, ignored);
  }
  const fs::path checkpoints = fs::absolute(folder / "checkpoints", ignored).lexically_normal();
  const fs::path kept = fs::absolute(keep, ignored).lexically_normal();
  const bool keeps = !keep.empty() && (kept / "").string().starts_with((checkpoints / "").string());
  if (!keeps) remove_checkpoints(checkpoints);
}

}  // namespace

bool has_run(const fs::path& folder) {
  std::error_code ignored;
  // The first file that a run's processes create, and the last.
  return fs::exists(folder / "server0.textproto", ignored) ||
         fs::exists(folder / "summary.json", ignored);
}

fs::path free_path(const fs::path& path) {
  std::error_code ignored;
  fs::path free = path;
  for (int number = 2; fs::exists(free, ignored); ++number) {
    free = path.string() + fmt::format("-{}", number);
  }
  return free;
}

Result<fs::path> make_run_folder(const RunFolderOptions& options) {
  std::error_code failed;
  if (!options.requested.empty()) {
    fs::path requested = options.requested;
    if (!requested.has_filename() && requested.has_parent_path()) {
      requested = requested.parent_path();
    }
    if (has_run(requested)) {
      if (!options.force) {
        return make_error(ErrorCode::kExists,
                          fmt::format("{} has a run already; --output {} is free, --force replaces "
                                      "the run",
                                      requested.string(), free_path(requested).string()));
      }
      remove_run(requested, options.keep);
    }
    fs::create_directories(requested, failed);
    if (failed) return cannot_make(requested, failed);
    return requested;
  }
  fs::create_directories("runs", failed);
  if (failed) return cannot_make("runs", failed);
  const std::string stem = fmt::format("{:%Y-%m-%d}-{}", fmt::localtime(std::time(nullptr)),
                                       as_file_name(options.job_name));
  for (int number = 1;; ++number) {
    const fs::path folder = fs::path("runs") / fmt::format("{}-{}", stem, number);
    if (fs::create_directory(folder, failed)) return folder;
    if (failed) return cannot_make(folder, failed);
  }
}

}  // namespace taut::cli
