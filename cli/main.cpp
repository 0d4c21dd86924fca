#include <exception>

#include "cli/commands/commands.hpp"
#include "cli/commands/shared_options.hpp"
#include "common/command_line/program.hpp"
#include "proto/wire_version.hpp"

namespace {

taut::command_line::ManNotes man_notes() {
  return {
      .version = taut::build_name(),
      .purpose = "trains neural nets over a parameter server with bounded staleness",
      .description =
          "Tautline trains neural nets on several workers that share their parameters through "
          "servers. A worker's reads may be behind the other workers' updates by no more than the "
          "job's slack: 0 clocks (BSP), a bound (SSP), or none (ASYNC).\n\n"
          "tautline train does all of it on one machine. On several machines, tautline-server and "
          "tautline-worker run as daemons, and the other commands talk to their coordinator.",
      .environment = {{"TAUTLINE_KEYS",
                       "The folder of the key for commands, unless --keys names one."},
                      {"TAUTLINE_COORDINATOR",
                       "HOST:PORT of the coordinator, unless --coordinator or --config is given; "
                       "the default is 127.0.0.1:7600."},
                      {"TAUTLINE_CONFIGS",
                       "The folder of the configurations, instead of the installed ones."}},
      .see_also = {"tautline-server", "tautline-worker"}};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace taut;
  command_line::Program program(
      "tautline", "Tautline: a parameter server whose workers drift only as far as you let them",
      "Example: tautline train --workers 2 --slack 1", man_notes());
  program.command().require_command();
  int status = cli::kFine;
  cli::add_commands(program.command(), status);
  try {
    return program.parse(argc, argv).value_or(status);
  } catch (const std::exception& failure) {
    return cli::fail(program.chosen(), failure.what());
  }
}
