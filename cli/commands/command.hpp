#pragma once

#include <string>
#include <string_view>

#include "cli/control_client.hpp"
#include "common/command_line/command.hpp"
#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut::cli {

using command_line::Command;
using command_line::kFailed;
using command_line::kFine;
using command_line::kUsage;
using command_line::UsageError;

/// Prints "tautline COMMAND: message" to standard error; returns kFailed.
int fail(std::string_view command, const std::string& message);

/// Where a subcommand finds the coordinator.
struct CoordinatorOption {
  std::string address;      // --coordinator
  std::string config_file;  // --config: the cluster file that the daemons were started with
  double wait_s = 5;        // --wait
  std::string keys;         // --keys: the folder of the key that the command proves itself with
  bool insecure = false;    // --insecure

  void add_to(Command& command);
  /// "host:port": what the options say, else TAUTLINE_COORDINATOR, else the default.
  /// Errors    a cluster file that cannot be read
  [[nodiscard]] Result<std::string> resolve() const;
  /// What the command proves itself with: the key in the folder that the options say, else
  /// TAUTLINE_KEYS, else the cluster file, else the user's own.
  /// Errors    no key there, or one that other users can read
  [[nodiscard]] Result<Security> security() const;
  /// Connects with both.
  [[nodiscard]] Result<ControlClient> connect() const;
};

}  // namespace taut::cli
