#include <fmt/format.h>

#include "cli/command.hpp"
#include "proto/wire_version.hpp"

namespace taut::cli {

void add_version(CLI::App& app, int& /*status*/) {
  CLI::App* command = app.add_subcommand("version", "Prints the build and its wire version");
  command->footer("Example: tautline version");
  command->callback([] { fmt::print("{}, wire version {}\n", build_name(), kWireVersion); });
}

}  // namespace taut::cli
