#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace taut::command_line {

// What a command line accepts, read from CLI11's tree: the source of help, completions and man
// pages. Options without a group are hidden, and left out.

struct OptionFacts {
  std::vector<std::string> names;    // "--slack"; a positional's only name, e.g. "JOB"
  std::string value;                 // its value's placeholder, e.g. "FILE"; empty: a flag
  std::vector<std::string> choices;  // the values that it accepts, if it lists them
  std::string help;
  std::string default_value;  // empty: none that can be printed
  bool required = false;
  bool repeats = false;  // accepts several values
};

struct CommandFacts {
  std::string name;  // "merge"
  std::string path;  // "tautline trace merge"
  std::string group;
  std::string help;
  std::string footer;
  std::vector<OptionFacts> positionals;
  std::vector<OptionFacts> options;
  std::vector<CommandFacts> commands;
  bool requires_command = false;  // it does nothing on its own
};

class Command;

/// REQUIRES  the program has a name
[[nodiscard]] CommandFacts facts_of(const Command& command);
[[nodiscard]] CommandFacts facts_of(const CLI::App& app);

/// The kind of an option's values, for completion.
enum class ValueKind { kNone, kChoices, kFile, kFolder, kCommand };
[[nodiscard]] ValueKind value_kind(const OptionFacts& option);

}  // namespace taut::command_line
