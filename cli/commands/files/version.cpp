#include <fmt/format.h>

#include "cli/commands/shared_options.hpp"
#include "proto/wire_version.hpp"

namespace taut::cli {

void add_version(Command& command, int& /*status*/) {
  command.on_run([] { fmt::print("{}, wire version {}\n", build_name(), kWireVersion); });
}

}  // namespace taut::cli
