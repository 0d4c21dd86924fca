#include "cli/runs/run_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/run_origin.hpp"
#include "common/files/file.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Below runs/SWEEP/RUN no folder is a run's.
constexpr int kMaxDepth = 3;
constexpr const char* kNotes = "notes.json";

json read_json(const fs::path& file) {
  const auto text = read_file(file);
  if (!text) return json::object();
  json parsed = json::parse(text.value(), nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

std::optional<double> figure_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::vector<std::string> words_of(const json& object, const char* key) {
  std::vector<std::string> words;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return words;
  for (const json& word : *found) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

void add_origin(const json& about, RunRecord& run) {
  run.kind = text_of(about, "kind");
  // A sweep's run records which of its points it is.
  if (run.kind.empty()) run.kind = about.contains("seed") ? "sweep" : "train";
  run.job = text_of(about, "name");
  run.began = text_of(about, "began");
  run.command = shell_line(words_of(about, "command"));
  run.host = text_of(about, "host");
  run.working_folder = text_of(about, "working_folder");
  run.project = text_of(about, "project");
  run.build = text_of(about, "build");
}

void add_summary(const json& summary, RunRecord& run) {
  run.state = text_of(summary, "state");
  if (run.state.empty()) run.state = "unfinished";
  if (run.job.empty()) run.job = text_of(summary, "job");
  run.message = text_of(summary, "message");
  run.advice = text_of(summary, "advice");
  run.mode = text_of(summary, "mode");
  if (run.mode == "SSP") run.mode += fmt::format(" {}", number_of(summary, "slack"));
  if (const auto workers = summary.find("workers"); workers != summary.end()) {
    run.workers = workers->size();
  }
  run.iterations = number_of(summary, "iterations");
  run.max_iter = number_of(summary, "max_iter");
  run.images_per_second = figure_of(summary, "images_per_second");
  run.rate = figure_of(summary, "rate");
  run.rate_unit = text_of(summary, "rate_unit");
  if (run.rate_unit.empty()) {  // of a version without it
    run.rate = run.images_per_second;
    run.rate_unit = "records/s";
  }
  run.seconds = figure_of(summary, "running_s");
  run.parameters_sha256 = text_of(summary, "parameters_sha256");
  const auto tests = summary.find("evaluations");
  if (tests != summary.end() && tests->is_array() && !tests->empty()) {
    run.accuracy = figure_of(tests->back(), "accuracy");
    run.loss = figure_of(tests->back(), "loss");
  }
  const auto checkpoints = summary.find("checkpoints");
  if (checkpoints == summary.end() || !checkpoints->is_array()) return;
  // The lab's are in the run's folder, and relative to it.
  for (const json& one : *checkpoints) {
    run.checkpoints.push_back((run.folder / text_of(one, "folder")).string());
  }
}

void collect(const fs::path& folder, int depth, std::vector<RunRecord>& found) {
  std::error_code failed;
  std::vector<fs::path> below;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
      below.push_back(entry->path());
    }
  }
  for (const fs::path& path : below) {
    if (is_run(path)) {
      if (auto run = read_record(path)) found.push_back(std::move(run.value()));
    } else if (depth > 1) {
      collect(path, depth - 1, found);
    }
  }
}

void add_notes(RunRecord& run) {
  const json notes = read_json(run.folder / kNotes);
  run.note = text_of(notes, "note");
  run.tags = words_of(notes, "tags");
}

RunRecord sweep_record(const fs::path& folder) {
  RunRecord sweep;
  sweep.folder = folder;
  sweep.name = folder.filename().string();
  const json began = read_json(folder / "began.json");
  sweep.began = text_of(began, "began");
  sweep.command = shell_line(words_of(began, "command"));
  sweep.project = text_of(began, "project");
  std::vector<RunRecord> runs;
  collect(folder, kMaxDepth - 1, runs);
  std::size_t done = 0;
  for (const RunRecord& run : runs) {
    done += run.state == "done" ? 1 : 0;
    sweep.checkpoints.insert(sweep.checkpoints.end(), run.checkpoints.begin(),
                             run.checkpoints.end());
  }
  sweep.kind = "whole sweep";
  sweep.state = done == runs.size() ? "done" : "unfinished";
  sweep.message = fmt::format("{} of {} runs done", done, runs.size());
  add_notes(sweep);
  return sweep;
}

}  // namespace

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "job.textproto", ignored) &&
         (fs::exists(folder / "run.json", ignored) ||
          fs::exists(folder / "summary.json", ignored) ||
          fs::exists(folder / "server0.textproto", ignored));
}

bool is_sweep(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "sweep.textproto", ignored) &&
         fs::exists(folder / "base_job.textproto", ignored);
}

Result<RunRecord> read_record(const fs::path& folder) {
  if (is_sweep(folder)) return sweep_record(folder);
  if (!is_run(folder)) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{} is not the folder of a run: it has no job.textproto with a run.json "
                    "or summary.json",
                    folder.string()));
  }
  RunRecord run;
  run.folder = folder;
  run.name = folder.filename().string();
  add_origin(read_json(folder / "run.json"), run);
  add_summary(read_json(folder / "summary.json"), run);
  add_notes(run);
  return run;
}

std::vector<RunRecord> records_below(const fs::path& folder) {
  std::vector<RunRecord> found;
  collect(folder, kMaxDepth, found);
  for (RunRecord& run : found) run.name = run.folder.lexically_relative(folder).string();
  std::ranges::sort(found, [](const RunRecord& a, const RunRecord& b) {
    return std::pair(a.began, a.name) < std::pair(b.began, b.name);
  });
  return found;
}

Result<RunRecord> find_record(const fs::path& runs, const std::string& name) {
  for (const fs::path& folder : {fs::path(name), runs / name}) {
    if (!is_run(folder) && !is_sweep(folder)) continue;
    TAUT_TRY(RunRecord run, read_record(folder));
    run.name = name;
    return run;
  }
  const bool is_number = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  std::vector<RunRecord> fitting;
  for (RunRecord& run : records_below(runs)) {
    const bool fits = run.name == name || (is_number && run.name.starts_with("job" + name + "-"));
    if (fits) fitting.push_back(std::move(run));
  }
  if (fitting.size() == 1) return std::move(fitting.front());
  if (fitting.empty()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("no run \"{}\" in {}; tautline runs list shows them, --runs DIR "
                                  "names another folder",
                                  name, runs.string()));
  }
  return invalid(fmt::format("\"{}\" fits {} runs, {} and {}; give the name", name, fitting.size(),
                             fitting[0].name, fitting[1].name));
}

Result<void> write_notes(const RunRecord& run) {
  const nlohmann::ordered_json notes = {{"note", run.note}, {"tags", run.tags}};
  return write_file_atomically(
      run.folder / kNotes,
      notes.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace taut::cli
