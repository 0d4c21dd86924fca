#include "cli/daemon_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/install_paths.hpp"
#include "common/files/file.hpp"
#include "common/keys/key_folder.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReadyWithin = std::chrono::seconds(20);
constexpr std::size_t kLogLines = 12;
// A group that loses more daemons than this has another problem.
constexpr std::size_t kReplacements = 100;

/// The key of a daemon, which an earlier attempt of the same run may have made.
Result<void> make_key(const fs::path& folder, const std::string& name, KeyRole role) {
  const auto added = add_key(folder, name, role);
  if (added || added.error().code == ErrorCode::kExists) return ok();
  return added.error();
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

std::string address_in(const std::string& ready_text, std::string_view word) {
  std::istringstream lines(ready_text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(word) && line.substr(word.size()).starts_with(' ')) {
      return line.substr(word.size() + 1);
    }
  }
  return {};
}

Result<void> DaemonGroup::start(Daemon daemon) {
  const bool is_server = daemon.role == KeyRole::kServer;
  TAUT_TRY(const fs::path program,
           sibling_program(is_server ? "tautline-server" : "tautline-worker"));
  if (options_.keys.empty()) {
    daemon.config.set_insecure(true);
  } else {
    TAUT_TRY(make_key(options_.keys, daemon.name, daemon.role));
    daemon.config.set_keys(options_.keys.string());
  }
  const fs::path stem = options_.folder / daemon.name;
  const std::string config_file = stem.string() + ".textproto";
  TAUT_TRY(write_file_atomically(config_file, to_text(daemon.config)));
  const std::string ready_file = stem.string() + ".ready";
  // One that an earlier run left in this folder names ports that are no longer used.
  std::error_code none;
  fs::remove(ready_file, none);
  ChildProcess::Command command{.name = daemon.name,
                                .program = program,
                                .arguments = {"--config", config_file, "--ready-file", ready_file},
                                .log = stem.string() + ".log",
                                .shielded = options_.shielded};
  command.arguments.insert(command.arguments.end(), daemon.options.begin(), daemon.options.end());
  TAUT_TRY(auto child, ChildProcess::start(command));
  children_.push_back(std::move(child));
  started_.push_back({std::move(command), ready_file, daemon.replaceable});
  return ok();
}

Result<std::string> DaemonGroup::await_ready(const std::string& name) {
  const fs::path ready_file = options_.folder / (name + ".ready");
  const TimePoint deadline = steady_now() + kReadyWithin;
  while (steady_now() < deadline) {
    std::error_code ignored;
    if (fs::exists(ready_file, ignored)) return read_file(ready_file);
    TAUT_TRY(check());
    if (stop_signal() != 0) return make_error(ErrorCode::kClosed, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("{} was not ready in {:g} s; the end of its log:{}", name, seconds(kReadyWithin),
                  last_lines(options_.folder / (name + ".log"), kLogLines)));
}

Result<void> DaemonGroup::replace(std::size_t index) {
  ChildProcess& child = children_[index];
  const Started& started = started_[index];
  std::error_code none;
  // One that was never ready would end in the same way again.
  const bool was_ready = fs::exists(started.ready_file, none);
  if (!started.replaceable || !was_ready || replaced_.size() >= kReplacements) {
    const std::string lines = last_lines(child.log(), kLogLines);
    std::string what = fmt::format("{} {}; the end of its log, {}:{}", child.name(), child.ending(),
                                   child.log().string(), lines.empty() ? " (empty)" : lines);
    const bool was_lost = was_ready && child.ending().starts_with("was killed");
    if (was_lost && !options_.if_lost.empty()) what += "\n  " + options_.if_lost;
    return make_error(ErrorCode::kUnavailable, std::move(what));
  }
  replaced_.push_back(fmt::format("{} {}", child.name(), child.ending()));
  ChildProcess::Command command = started.command;
  // The log of each start is kept.
  command.log.replace_filename(fmt::format("{}-{}.log", command.name, replaced_.size() + 1));
  fs::remove(started.ready_file, none);
  TAUT_TRY(child, ChildProcess::start(command));
  return ok();
}

Result<void> DaemonGroup::check() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].running()) continue;
    TAUT_TRY(replace(i));
  }
  return ok();
}

}  // namespace taut::cli
