#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/child_process.hpp"
#include "common/net/security.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/cluster.pb.h"

namespace taut::cli {

/// Servers and workers that this process starts on this machine. None of them outlives it.
/// Thread: the one that made it.
class DaemonGroup {
 public:
  struct Options {
    std::filesystem::path folder;  // receives every daemon's config, ready file and log
    std::filesystem::path keys;    // where each daemon gets a key; empty: a cluster without keys
    bool shielded = false;         // as ChildProcess::Command's
    std::string if_lost{};         // hint for restarting a daemon that a signal killed
  };
  struct Daemon {
    std::string name;
    KeyRole role = KeyRole::kWorker;     // kServer or kWorker: decides the program
    pb::ClusterConfig config;            // without its keys
    bool replaceable = false;            // started again if it ends once it was ready
    std::vector<std::string> options{};  // on its command line, in addition to those of its files
  };

  DaemonGroup() = default;
  explicit DaemonGroup(Options options) : options_(std::move(options)) {}

  /// Starts a daemon. Errors: no such program; its files cannot be written.
  [[nodiscard]] Result<void> start(Daemon daemon);
  /// Waits until a daemon's ready file exists, and returns its text.
  /// Errors    a daemon ended; timeout, with the end of its log; closed: interrupted
  [[nodiscard]] Result<std::string> await_ready(const std::string& name);
  /// Restarts daemons that have ended and are replaceable.
  /// Errors    unavailable: another daemon ended; names it, with how and the last lines of its log
  [[nodiscard]] Result<void> check();
  /// How daemons ended that were started again: "server1 was killed by signal 9 (Killed)".
  [[nodiscard]] const std::vector<std::string>& replaced() const { return replaced_; }
  [[nodiscard]] std::vector<ChildProcess>& children() { return children_; }
  /// Ends every daemon within `grace`. Returns the names of those that had to be killed.
  std::vector<std::string> stop(Duration grace) { return end_all(children_, grace); }

 private:
  struct Started {
    ChildProcess::Command command;
    std::filesystem::path ready_file;
    bool replaceable = false;
  };
  [[nodiscard]] Result<void> replace(std::size_t index);

  Options options_;
  std::vector<ChildProcess> children_;
  std::vector<Started> started_;  // of each child
  std::vector<std::string> replaced_;
};

/// The last `count` lines of a log, each after "  | "; empty if the log cannot be read.
[[nodiscard]] std::string last_lines(const std::filesystem::path& log, std::size_t count);

/// The address after a word in a ready file's text; empty if the text does not have the word.
[[nodiscard]] std::string address_in(const std::string& ready_text, std::string_view word);

}  // namespace taut::cli
