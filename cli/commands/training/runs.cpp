#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/runs/run_comparison.hpp"
#include "cli/runs/run_record.hpp"
#include "cli/views/draw.hpp"
#include "cli/views/terminal.hpp"
#include "common/files/file.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/formats/checkpoint_parts.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

struct RunsOptions {
  std::string runs = "runs";
  std::vector<std::string> words;
  std::string name;
  std::string second;
  std::string tag;
  std::string output;
  bool json = false;
  bool remove = false;
  bool yes = false;
  bool checkpoints = false;
};

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
}

nlohmann::ordered_json json_of(const RunRecord& run) {
  const auto figure = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"name", run.name},
          {"folder", run.folder.string()},
          {"kind", run.kind},
          {"job", run.job},
          {"state", run.state},
          {"message", run.message},
          {"advice", run.advice},
          {"mode", run.mode},
          {"workers", run.workers},
          {"iterations", run.iterations},
          {"max_iter", run.max_iter},
          {"test_accuracy", figure(run.accuracy)},
          {"test_loss", figure(run.loss)},
          {"images_per_second", figure(run.images_per_second)},
          {"rate", figure(run.rate)},
          {"rate_unit", run.rate_unit},
          {"running_s", figure(run.seconds)},
          {"parameters_sha256", run.parameters_sha256},
          {"checkpoints", run.checkpoints},
          {"began", run.began},
          {"command", run.command},
          {"host", run.host},
          {"working_folder", run.working_folder},
          {"project", run.project},
          {"build", run.build},
          {"tags", run.tags},
          {"note", run.note}};
}

std::vector<std::string> table_of(const std::vector<RunRecord>& runs) {
  std::vector<Row> rows{{"run", "kind", "state", "mode", "workers", "iterations", "accuracy",
                         "loss", "began", "tags"}};
  for (const RunRecord& run : runs) {
    rows.push_back({run.name, run.kind, run.state, run.mode.empty() ? "-" : run.mode,
                    std::to_string(run.workers), grouped(run.iterations), shown(run.accuracy, 4),
                    shown(run.loss, 4), run.began.empty() ? "-" : run.began,
                    fmt::format("{}", fmt::join(run.tags, " "))});
  }
  return aligned(rows, {false, false, false, false, true, true, true, true, false, false});
}

Result<void> list(const RunsOptions& options) {
  std::error_code ignored;
  if (!fs::is_directory(options.runs, ignored)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("there is no folder {}; --runs DIR names another", options.runs));
  }
  std::vector<RunRecord> runs = records_below(options.runs);
  if (!options.tag.empty()) {
    std::erase_if(runs, [&](const RunRecord& run) {
      return std::ranges::find(run.tags, options.tag) == run.tags.end();
    });
  }
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const RunRecord& run : runs) all.push_back(json_of(run));
    fmt::print("{}\n", nlohmann::ordered_json({{"runs", all}}).dump());
    return ok();
  }
  if (runs.empty()) {
    fmt::print("no runs in {}\n", options.runs);
  } else {
    print_lines(table_of(runs));
  }
  return ok();
}

Result<void> show(const RunsOptions& options) {
  TAUT_TRY(const RunRecord run, find_record(options.runs, options.name));
  const bool is_whole_sweep = is_sweep(run.folder);
  std::vector<RunRecord> runs;
  if (is_whole_sweep) runs = records_below(run.folder);
  if (options.json) {
    nlohmann::ordered_json about = json_of(run);
    for (const RunRecord& one : runs) about["runs"].push_back(json_of(one));
    fmt::print("{}\n", about.dump());
    return ok();
  }
  const auto of_run = [&](const std::string& text) {
    return is_whole_sweep ? std::string() : text;
  };
  std::vector<Row> rows{{"run", run.name},
                        {"kind", run.kind},
                        {"job", run.job},
                        {"state", run.state},
                        {"message", run.message},
                        {"advice", run.advice},
                        {"mode", run.mode},
                        {"workers", of_run(std::to_string(run.workers))},
                        {"iterations", of_run(fmt::format("{} of {}", grouped(run.iterations),
                                                          grouped(run.max_iter)))},
                        {"test accuracy", shown(run.accuracy, 4)},
                        {"test loss", shown(run.loss, 4)},
                        {run.rate_unit, shown(run.rate, 0)},
                        {"seconds", shown(run.seconds, 1)},
                        {"parameters sha256", run.parameters_sha256},
                        {"began", run.began},
                        {"command", run.command},
                        {"host", run.host},
                        {"working folder", run.working_folder},
                        {"project", run.project},
                        {"build", run.build},
                        {"tags", fmt::format("{}", fmt::join(run.tags, " "))},
                        {"note", run.note}};
  if (!is_whole_sweep) {
    for (const std::string& folder : run.checkpoints) rows.push_back({"checkpoint", folder});
  }
  rows.push_back({"folder", run.folder.string()});
  std::error_code ignored;
  if (const fs::path report = run.folder / "report.html"; fs::exists(report, ignored)) {
    rows.push_back({"report", report.string()});
  }
  std::erase_if(rows, [](const Row& row) { return row[1].empty() || row[1] == "-"; });
  for (const std::string& line : aligned(rows)) fmt::print("{}\n", line);
  if (runs.empty()) return ok();
  fmt::print("\n");
  print_lines(table_of(runs));
  return ok();
}

Result<void> compare_two(const RunsOptions& options) {
  TAUT_TRY(const RunRecord first, find_record(options.runs, options.name));
  TAUT_TRY(const RunRecord second, find_record(options.runs, options.second));
  for (const RunRecord* run : {&first, &second}) {
    if (!is_sweep(run->folder)) continue;
    return invalid(fmt::format(
        "{0} is a whole sweep, whose report compares its runs; tautline runs show {0} names them",
        run->name));
  }
  TAUT_TRY(const RunComparison comparison, compare(first, second));
  print_lines(comparison_lines(comparison));
  if (options.output.empty()) return ok();
  std::error_code ignored;
  if (fs::exists(options.output, ignored)) {
    return make_error(ErrorCode::kExists,
                      fmt::format("{} exists; name another file with --output", options.output));
  }
  TAUT_TRY(write_file_atomically(options.output, comparison_html(comparison)));
  fmt::print("report: {}\n", options.output);
  return ok();
}

Result<void> note(const RunsOptions& options) {
  TAUT_TRY(RunRecord run, find_record(options.runs, options.name));
  if (options.words.empty() && !options.remove) {
    fmt::print("{}\n", run.note.empty() ? run.name + " has no note" : run.note);
    return ok();
  }
  run.note = fmt::format("{}", fmt::join(options.words, " "));
  return write_notes(run);
}

Result<void> tag(const RunsOptions& options) {
  TAUT_TRY(RunRecord run, find_record(options.runs, options.name));
  for (const std::string& word : options.words) {
    std::erase(run.tags, word);
    if (!options.remove) run.tags.push_back(word);
  }
  TAUT_TRY(write_notes(run));
  fmt::print("{}: {}\n", run.name,
             run.tags.empty() ? "no tags" : fmt::format("{}", fmt::join(run.tags, " ")));
  return ok();
}

/// The run's checkpoints on this machine that are not in its folder.
std::vector<fs::path> checkpoints_elsewhere(const RunRecord& run) {
  std::error_code ignored;
  const fs::path own = fs::weakly_canonical(run.folder, ignored);
  std::vector<fs::path> elsewhere;
  for (const std::string& folder : run.checkpoints) {
    const fs::path place = fs::weakly_canonical(folder, ignored);
    const auto [end, unused] = std::mismatch(own.begin(), own.end(), place.begin(), place.end());
    if (end != own.end() && fs::exists(place / kManifestName, ignored)) elsewhere.push_back(place);
  }
  return elsewhere;
}

/// Removes what belongs to a checkpoint; its folder remains if it has other files too.
Result<void> remove_checkpoint(const fs::path& folder) {
  TAUT_TRY(const std::string text, read_file(folder / kManifestName));
  TAUT_TRY(const pb::CheckpointManifest manifest,
           parse_manifest(text, (folder / kManifestName).string()));
  std::error_code failed;
  // For a coded one, the copies and parts of this machine's servers are removed too.
  std::vector<fs::path> folders{folder};
  if (manifest.has_coding()) folders = part_folders(folder);
  for (const fs::path& place : folders) {
    // The manifest first: without it, the rest is not a complete checkpoint.
    fs::remove(place / kManifestName, failed);
    for (const pb::CheckpointFile& file : manifest.files()) {
      const std::string name = fs::path(file.name()).filename().string();
      if (!failed) fs::remove(place / name, failed);
      for (int part = 0; !failed && part < file.parts_size(); ++part) {
        fs::remove(place / part_file_name(name, static_cast<std::size_t>(part)), failed);
      }
    }
    if (failed) {
      return make_error(ErrorCode::kIo,
                        fmt::format("{} cannot be removed: {}", place.string(), failed.message()));
    }
    fs::remove(place, failed);
    failed.clear();
  }
  return ok();
}

/// Whether a run without a summary has written something in the last minute.
bool is_written(const RunRecord& run) {
  constexpr auto kQuiet = std::chrono::seconds(60);
  if (run.state != "unfinished" && run.state != "running") return false;
  // A worker's records, and a sweep's runs, are in subfolders.
  const auto options = fs::directory_options::skip_permission_denied;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(run.folder, options, failed), end;
       !failed && entry != end; entry.increment(failed)) {
    std::error_code ignored;
    const auto written = fs::last_write_time(entry->path(), ignored);
    if (!ignored && fs::file_time_type::clock::now() - written < kQuiet) return true;
  }
  // A folder has vanished in the meantime: a process is removing it.
  return static_cast<bool>(failed);
}

/// Throws UsageError without --yes.
Result<void> remove_runs(const RunsOptions& options) {
  std::vector<RunRecord> chosen;
  for (const std::string& name : options.words) {
    TAUT_TRY(RunRecord run, find_record(options.runs, name));
    if (is_written(run)) {
      return make_error(ErrorCode::kExists,
                        fmt::format("{} was written in the last minute and has no summary: it may "
                                    "still train",
                                    run.name));
    }
    chosen.push_back(std::move(run));
  }
  const char* const removes = options.yes ? "removes " : "would remove ";
  for (const RunRecord& run : chosen) {
    fmt::print("{}{}\n", removes, run.folder.string());
    for (const fs::path& checkpoint : checkpoints_elsewhere(run)) {
      if (options.checkpoints) {
        fmt::print("{}{}\n", removes, checkpoint.string());
      } else {
        fmt::print("leaves its checkpoint {}; --checkpoints removes it too\n", checkpoint.string());
      }
    }
  }
  std::fflush(stdout);
  if (!options.yes) {
    throw UsageError("nothing is removed without --yes; checkpoints in the folders go too");
  }
  for (const RunRecord& run : chosen) {
    if (options.checkpoints) {
      for (const fs::path& checkpoint : checkpoints_elsewhere(run)) {
        TAUT_TRY(remove_checkpoint(checkpoint));
      }
    }
    std::error_code failed;
    fs::remove_all(run.folder, failed);
    if (failed) {
      return make_error(ErrorCode::kIo, fmt::format("{} cannot be removed: {}", run.folder.string(),
                                                    failed.message()));
    }
  }
  return ok();
}

using Action = Result<void> (*)(const RunsOptions& options);

Command add_one(Command& runs, const char* name, const char* help, const char* example,
                const std::shared_ptr<RunsOptions>& options, Action action, int& status) {
  Command command = runs.command(name, help, std::string("Example: ") + example);
  command.text("--runs", options->runs, "Folder that is searched for runs")
      .value("DIR")
      .by_default(options->runs);
  command.on_run([options, action, name, &status] {
    if (const auto done = action(*options); !done) {
      status = fail(std::string("runs ") + name, done.error().message);
    }
  });
  return command;
}

void one_run(Command& command, const std::shared_ptr<RunsOptions>& options) {
  command.text("RUN", options->name, "The run's name, its folder, or the number of a submitted job")
      .required()
      .value("RUN");
}

}  // namespace

void add_runs(Command& runs, int& status) {
  runs.require_command();
  const auto fresh = [] { return std::make_shared<RunsOptions>(); };
  auto options = fresh();
  Command command = add_one(runs, "list", "Lists the runs of train, submit and sweep",
                            "tautline runs list --tag baseline", options, list, status);
  command.text("--tag", options->tag, "Only runs with this tag").value("TAG");
  command.flag("--json", options->json, "Prints one JSON object on a line");

  options = fresh();
  command = add_one(runs, "show", "Shows a run: its figures, command line, tags and note",
                    "tautline runs show 7", options, show, status);
  one_run(command, options);
  command.flag("--json", options->json, "Prints one JSON object on a line");

  options = fresh();
  command = add_one(runs, "compare", "Shows what differs between two runs: figures and fields",
                    "tautline runs compare first second --output both.html", options, compare_two,
                    status);
  one_run(command, options);
  command.text("SECOND", options->second, "The run to compare it with").required().value("RUN");
  command.text("--output", options->output, "Writes a page with the curves of both, too")
      .value("FILE");

  options = fresh();
  command =
      add_one(runs, "note", "Writes a note about a run in place of an earlier one, or shows it",
              "tautline runs note first \"the data was shuffled\"", options, note, status);
  one_run(command, options);
  auto text = command.texts("TEXT", options->words, "The note; without it, the run's is shown");
  text.value("TEXT");
  command.flag("--remove", options->remove, "Removes the note").excludes(text);

  options = fresh();
  command = add_one(runs, "tag", "Adds tags to a run", "tautline runs tag first baseline", options,
                    tag, status);
  one_run(command, options);
  command.texts("TAG", options->words, "The tags").required().value("TAG");
  command.flag("--remove", options->remove, "Removes them instead");

  options = fresh();
  command = add_one(runs, "rm", "Removes runs with everything in their folders",
                    "tautline runs rm first --yes", options, remove_runs, status);
  command.texts("RUN", options->words, "The runs").required().value("RUN");
  command.flag("--yes", options->yes, "Removes them; without it they are only shown");
  command.flag("--checkpoints", options->checkpoints,
               "Removes their checkpoints in other folders too");
}

}  // namespace taut::cli
