#pragma once

#include <string>
#include <string_view>

#include "common/command_line/command.hpp"
#include "common/net/security.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/session/control_client.hpp"

namespace taut::cli {

using command_line::Command;
using command_line::kFailed;
using command_line::kFine;
using command_line::kUsage;
using command_line::UsageError;

/// Prints "tautline COMMAND: message" to standard error; returns kFailed.
int fail(std::string_view command, const std::string& message);

/// The value of an environment variable; empty if it is not set.
[[nodiscard]] std::string environment_variable(const char* name);

/// A cluster file, or the defaults if none is named, with the key folder that a command uses:
/// --keys, else the file's, else TAUTLINE_KEYS; none: the user's own. A file with `insecure: true`
/// needs none, and then the variable is not used.
/// Errors    a cluster file that cannot be read
[[nodiscard]] Result<pb::ClusterConfig> read_cluster(const std::string& config_file,
                                                     const std::string& keys, bool insecure);

/// Where a subcommand finds the coordinator.
struct CoordinatorOption {
  std::string address;      // --coordinator
  std::string config_file;  // --config: the cluster file that the daemons were started with
  double wait_s = 5;        // --wait
  std::string keys;         // --keys: the folder of the command's key
  bool insecure = false;    // --insecure

  void add_to(Command& command);
  /// "host:port": from the options, else TAUTLINE_COORDINATOR, else the default.
  /// Errors    a cluster file that cannot be read
  [[nodiscard]] Result<std::string> resolve() const;
  /// The command's credentials: a key in the folder that read_cluster() finds.
  /// Errors    no key there, or one that other users can read
  [[nodiscard]] Result<Security> security() const;
  /// Connects with both.
  [[nodiscard]] Result<ControlClient> connect() const;
};

/// How the daemons that a command describes protect parameters between hosts.
struct DataSecurityOption {
  std::string word = "curve";  // --data-security

  void add_to(Command& command);
  [[nodiscard]] pb::ClusterConfig::DataSecurity value() const;
};

}  // namespace taut::cli
