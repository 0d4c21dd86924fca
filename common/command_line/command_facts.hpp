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
  std::vector<std::string> names;    // "--slack"; a positional's one name, e.g. "JOB"
  std::string value;                 // its value's placeholder, e.g. "FILE"; empty: a flag
  std::vector<std::string> choices;  // the values that it accepts, where they are few
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
  bool requires_command = false;  // it does nothing by itself
};

class Command;

/// REQUIRES  the program has a name
[[nodiscard]] CommandFacts facts_of(const Command& command);
[[nodiscard]] CommandFacts facts_of(const CLI::App& app);

/// What the values of an option are, for completion.
enum class ValueKind { kNone, kChoices, kFile, kFolder, kCommand };
[[nodiscard]] ValueKind value_kind(const OptionFacts& option);

}  // namespace taut::command_line
