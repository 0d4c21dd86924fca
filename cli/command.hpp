#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace taut::cli {

/// Exit statuses of every subcommand.
inline constexpr int kFine = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

// Each adds one subcommand to the command line; when it is the one chosen, its callback runs it
// and leaves the exit status in `status`. A usage mistake is thrown as CLI::ParseError.
void add_submit(CLI::App& app, int& status);
void add_status(CLI::App& app, int& status);
void add_set_slack(CLI::App& app, int& status);
void add_checkpoint(CLI::App& app, int& status);
void add_stop(CLI::App& app, int& status);
void add_top(CLI::App& app, int& status);
void add_trace(CLI::App& app, int& status);
void add_convert(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_validate(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);
void add_predict(CLI::App& app, int& status);
void add_sample(CLI::App& app, int& status);
void add_summary(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_sweep(CLI::App& app, int& status);
void add_test(CLI::App& app, int& status);
void add_train(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);

/// Prints "tautline COMMAND: message" to standard error; returns kFailed.
int fail(std::string_view command, const std::string& message);

/// Where a subcommand finds the coordinator.
struct CoordinatorOption {
  std::string address;      // --coordinator
  std::string config_file;  // --config: the cluster file that the daemons were started with
  double wait_s = 5;        // --wait

  void add_to(CLI::App& command);
  /// "host:port": what the options say, else TAUTLINE_COORDINATOR, else the default.
  /// Errors    a cluster file that cannot be read
  [[nodiscard]] Result<std::string> resolve() const;
};

}  // namespace taut::cli
