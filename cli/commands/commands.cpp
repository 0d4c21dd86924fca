#include "cli/commands/commands.hpp"

#include <algorithm>
#include <string>

namespace taut::cli {

using command_line::Command;

#define TAUT_COMMAND(name, group, help, example) void add_##name(Command& command, int& status);
#include "cli/commands/table.def"
#undef TAUT_COMMAND

namespace {

struct Entry {
  const char* name;
  const char* group;
  const char* help;
  const char* example;
  void (*add)(Command& command, int& status);
};

constexpr Entry kCommands[] = {
#define TAUT_COMMAND(name, group, help, example) {#name, group, help, example, add_##name},
#include "cli/commands/table.def"
#undef TAUT_COMMAND
};

}  // namespace

void add_commands(Command program, int& status) {
  for (const Entry& entry : kCommands) {
    std::string name = entry.name;
    std::replace(name.begin(), name.end(), '_', '-');
    Command command =
        program.command(name, entry.help, std::string("Example: ") + entry.example, entry.group);
    entry.add(command, status);
  }
}

}  // namespace taut::cli
