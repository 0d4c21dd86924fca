#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"

namespace taut::cli {

void add_help(Command& command, int& /*status*/) {
  auto words = std::make_shared<std::vector<std::string>>();
  command.texts("COMMAND", *words, "The command, e.g. train or trace merge").value("COMMAND");
  command.on_run([words, program = command] { fmt::print("{}", program.help_of(*words)); });
}

}  // namespace taut::cli
