#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/command_line/command.hpp"
#include "common/command_line/man_page.hpp"

namespace taut::command_line {

/// A program's whole command line: its options and commands, --version, --help, and the hidden
/// `--generate bash|zsh|man`, which prints a completion or the man page. Thread: one.
class Program {
 public:
  /// help      one line for --help
  /// footer    one or more examples
  Program(const std::string& name, const std::string& help, const std::string& footer,
          ManNotes notes);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Where options and commands are added.
  [[nodiscard]] Command command() { return Command(*app_); }

  /// Parses the command line and runs the command that it names. Returns the exit status if the
  /// program ends here: after help, version or --generate, or after a usage mistake, which is
  /// explained on standard error in one line.
  /// Errors    what the command throws, other than UsageError
  [[nodiscard]] std::optional<int> parse(int argc, char** argv);

  /// The command that was named, e.g. "train"; empty before it is known.
  [[nodiscard]] std::string chosen() const;

 private:
  std::unique_ptr<CLI::App> app_;
  ManNotes notes_;
};

}  // namespace taut::command_line
