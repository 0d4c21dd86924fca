#include "cli/sweep/slurm_array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <thread>

#include "cli/child_process.hpp"
#include "common/files/file.hpp"
#include "common/system/stop_signal.hpp"
#include "common/time.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kAnswerWithin = std::chrono::seconds(60);
constexpr auto kBetweenAnswers = std::chrono::milliseconds(20);

/// A word quoted for a shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

/// A path in one of sbatch's patterns for file names, in which '%' begins a placeholder.
std::string literal(const std::string& path) {
  std::string text;
  for (const char letter : path) text += letter == '%' ? std::string("%%") : std::string(1, letter);
  return text;
}

/// A program of Slurm that is on the PATH.
Result<fs::path> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code none;
    if (fs::is_regular_file(fs::path(folder) / name, none)) return fs::path(folder) / name;
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{} is not on the PATH: run this where Slurm's commands are "
                                "installed, as on a login node",
                                name));
}

struct Answer {
  bool went_well = false;
  std::string text;
};

/// The arguments with which env runs squeue so that its answer is complete: by default it shortens
/// the list of an array's pending tasks to 64 letters, even if it prints one task a line, and the
/// user's variables may leave out more.
std::vector<std::string> asking_for_all(const fs::path& squeue, const std::string& job) {
  std::vector<std::string> arguments;
  for (const char* hides : {"SQUEUE_ACCOUNT", "SQUEUE_ARRAY_UNIQUE", "SQUEUE_LICENSES",
                            "SQUEUE_NAMES", "SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_USERS"}) {
    arguments.insert(arguments.end(), {"-u", hides});
  }
  arguments.insert(arguments.end(), {"SLURM_BITSTR_LEN=0", squeue.string(), "--noheader", "--array",
                                     "--states=all", "--jobs", job, "--format", "%K %T"});
  return arguments;
}

/// Runs a program to its end.
/// name  of Slurm's command, which is that program or runs in it
/// Errors    unavailable: it does not end; closed: interrupted, and the command with it
Result<Answer> run(const std::string& name, const fs::path& program,
                   std::vector<std::string> arguments, const fs::path& folder) {
  const fs::path log = folder / (name + ".log");
  // An interrupted answer leaves one, to which this one would be appended.
  std::error_code none;
  fs::remove(log, none);
  TAUT_TRY(auto child,
           ChildProcess::start(
               {.name = name, .program = program, .arguments = std::move(arguments), .log = log}));
  const TimePoint until = steady_now() + kAnswerWithin;
  while (child.running()) {
    if (steady_now() > until) {
      return make_error(ErrorCode::kUnavailable, fmt::format("{} has not ended within {:g} s", name,
                                                             seconds(kAnswerWithin)));
    }
    if (stop_signal() != 0) {
      return make_error(ErrorCode::kClosed, fmt::format("{} was interrupted", name));
    }
    std::this_thread::sleep_for(kBetweenAnswers);
  }
  TAUT_TRY(const std::string text, read_file(log));
  fs::remove(log, none);
  return Answer{child.ended_well(), text};
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

std::string array_ranges(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += std::to_string(numbers[first]);
    if (last > first) text += fmt::format("-{}", numbers[last]);
    first = last + 1;
  }
  return text;
}

std::string array_script(const SlurmArray& array) {
  return fmt::format(R"(#!/bin/bash
# Written by tautline sweep --engine slurm: each task is a run of the sweep in this folder.
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={0}
exec {1} sweep --output {2} --task "$SLURM_ARRAY_TASK_ID"
)",
                     array.processors, quoted(array.program.string()),
                     quoted(array.folder.string()));
}

std::vector<std::string> submit_arguments(const SlurmArray& array, const fs::path& script) {
  std::vector<std::string> arguments{"--parsable"};
  arguments.insert(arguments.end(), array.options.begin(), array.options.end());
  arguments.push_back("--job-name=" + array.name);
  arguments.push_back(fmt::format("--array={}%{}", array_ranges(array.runs), array.at_once));
  arguments.push_back("--output=" + literal(array.folder.string()) + "/slurm-%A_%a.out");
  arguments.push_back(script.string());
  return arguments;
}

TaskStates task_states(std::string_view printed) {
  TaskStates states;
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, state;
    words >> number >> state;
    std::size_t task = 0;
    const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), task);
    const bool is_number = failed == std::errc() && end == number.data() + number.size();
    if (!is_number || state.empty()) continue;
    // A run that was submitted again after a failure is in two jobs: the active one counts.
    const auto known = states.find(task);
    if (known == states.end() || has_ended(known->second)) states[task] = state;
  }
  return states;
}

bool has_ended(const std::string& state) {
  // Slurm's job states, squeue(1), JOB STATE CODES. PREEMPTED ones that are requeued are PENDING.
  constexpr std::array<std::string_view, 10> kEnded = {
      "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
      "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};
  return std::ranges::find(kEnded, state) != kEnded.end();
}

Result<std::string> submit_array(const SlurmArray& array) {
  const fs::path script = array.folder / "slurm.sbatch";
  TAUT_TRY(write_file_atomically(script, array_script(array)));
  TAUT_TRY(const fs::path sbatch, find_program("sbatch"));
  const auto ran = run("sbatch", sbatch, submit_arguments(array, script), array.folder);
  if (!ran &&
      (ran.error().code == ErrorCode::kClosed || ran.error().code == ErrorCode::kUnavailable)) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}; whether it has submitted the sweep is unknown: squeue "
                                  "--name={} shows it, and scancel ends it",
                                  ran.error().message, array.name));
  }
  TAUT_TRY(const Answer answer, ran);
  // "NUMBER", or "NUMBER;CLUSTER", after warnings.
  const std::string line = last_line(answer.text);
  const std::string number = line.substr(0, line.find(';'));
  const bool is_number = !number.empty() && std::ranges::all_of(number, [](char digit) {
    return digit >= '0' && digit <= '9';
  });
  if (answer.went_well && is_number) return number;
  return invalid(
      fmt::format("sbatch does not take the sweep: {}; --sbatch gives it options, e.g. "
                  "--sbatch=--partition=NAME",
                  line.empty() ? "without a message" : line));
}

Result<SlurmQueue> ask_queue(const std::vector<std::string>& jobs, const fs::path& folder) {
  // One job at a time: in a query for several, a forgotten one would hide the others.
  std::string printed;
  SlurmQueue queue;
  for (const std::string& job : jobs) {
    TAUT_TRY(const fs::path squeue, find_program("squeue"));
    TAUT_TRY(const fs::path env, find_program("env"));
    TAUT_TRY(const Answer answer, run("squeue", env, asking_for_all(squeue, job), folder));
    if (answer.went_well) {
      printed += answer.text;
      const bool lives = std::ranges::any_of(
          task_states(answer.text), [](const auto& task) { return !has_ended(task.second); });
      if (lives) queue.living.push_back(job);
    } else if (answer.text.find("Invalid job id") == std::string::npos) {
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("squeue fails: {}", last_line(answer.text)));
    }
  }
  queue.tasks = task_states(printed);
  return queue;
}

}  // namespace taut::cli
