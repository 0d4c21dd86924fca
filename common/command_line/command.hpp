#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/command_line/value_checks.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace taut::command_line {

// The options of a command. CLI11 does the work; its header is the most expensive to compile, so
// only this folder's sources include it. Targets must exist until the command line has been parsed
// and its command has run.

/// Exit statuses of every program.
inline constexpr int kFine = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

struct CommandFacts;

/// A mistake in the command line that is found after its values were checked one by one, e.g.
/// "--slack: contradicts --mode". Thrown by a command's function; reported like any usage mistake.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One option or argument, which its methods describe further.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  /// The value's placeholder in the help, which also decides its completion: FILE, DIR, TEXT.
  Option value(const std::string& name);
  /// What the help shows as the default.
  Option by_default(const std::string& shown);
  /// Not shown in help, completions and man pages.
  Option hidden();
  Option needs(Option other);
  Option excludes(Option other);
  /// Accepts several values, separated by ','.
  Option separated_by_commas();
  /// Refuses values. The check returns what is wrong; empty if the value is valid.
  Option check(const std::function<std::string(const std::string&)>& check);

  /// "--slack", or for an argument "JOB".
  [[nodiscard]] std::string name() const;
  /// Whether the command line contains it. REQUIRES  it was parsed
  [[nodiscard]] bool is_given() const;

 private:
  CLI::Option* option_;
};

/// A command, or the program itself. A name that starts with '-' adds an option, any other name a
/// positional argument.
class Command {
 public:
  using SetText = std::function<void(const std::string&)>;
  using SetNumber = std::function<void(std::uint64_t)>;

  explicit Command(CLI::App& app) : app_(&app) {}

  Option text(const std::string& name, std::string& target, const std::string& help);
  Option text(const std::string& name, const SetText& set, const std::string& help);
  /// May be given several times; as an argument, several words.
  Option texts(const std::string& name, std::vector<std::string>& target, const std::string& help);
  Option texts(const std::string& name,
               const std::function<void(const std::vector<std::string>&)>& set,
               const std::string& help);

  /// target    an integer, or a std::optional of one
  template <class Target>
  Option whole_number(const std::string& name, Target& target, const std::string& help,
                      std::uint64_t min = 0, std::uint64_t max = max_of<Target>());
  Option whole_number(const std::string& name, const SetNumber& set, const std::string& help,
                      std::uint64_t min, std::uint64_t max);
  /// target    a double, or a std::optional of one
  /// unit      the value's placeholder in the help, e.g. "SECONDS"
  template <class Target>
  Option number(const std::string& name, Target& target, const std::string& help,
                const std::string& unit, NumberRange range);
  Option one_of(const std::string& name, std::string& target, const std::string& help,
                const std::vector<std::string>& words);
  /// A number of bytes, e.g. 64MiB.
  Option byte_size(const std::string& name, std::uint64_t& target, const std::string& help);
  Option flag(const std::string& name, const std::function<void()>& set, const std::string& help);
  Option flag(const std::string& name, bool& target, const std::string& help);

  /// Adds a subcommand.
  Command command(const std::string& name, const std::string& help, const std::string& footer,
                  const std::string& group = "Commands");
  /// Makes naming one of its subcommands mandatory.
  void require_command();
  /// Sets what runs when the command line names this command.
  void on_run(const std::function<void()>& run);

  [[nodiscard]] std::string name() const;
  /// The help of the command named by `words`, starting at the program.
  /// Errors    UsageError: no such command, with a guess
  [[nodiscard]] std::string help_of(const std::vector<std::string>& words) const;

 private:
  template <class Target>
  struct ValueOf {
    using Type = Target;
  };
  template <class Target>
  requires requires { typename Target::value_type; }
  struct ValueOf<Target> {
    using Type = typename Target::value_type;
  };
  template <class Target>
  static constexpr std::uint64_t max_of() {
    return static_cast<std::uint64_t>(std::numeric_limits<typename ValueOf<Target>::Type>::max());
  }
  Option number_option(const std::string& name, const std::function<void(double)>& set,
                       const std::string& help, const std::string& unit, NumberRange range);

  friend CommandFacts facts_of(const Command& command);

  CLI::App* app_;
};

template <class Target>
Option Command::whole_number(const std::string& name, Target& target, const std::string& help,
                             std::uint64_t min, std::uint64_t max) {
  using Value = typename ValueOf<Target>::Type;
  return whole_number(
      name, [&target](std::uint64_t value) { target = static_cast<Value>(value); }, help, min, max);
}

template <class Target>
Option Command::number(const std::string& name, Target& target, const std::string& help,
                       const std::string& unit, NumberRange range) {
  using Value = typename ValueOf<Target>::Type;
  return number_option(
      name, [&target](double value) { target = static_cast<Value>(value); }, help, unit, range);
}

}  // namespace taut::command_line
