#pragma once

#include "common/command_line/command.hpp"

namespace taut::cli {

/// Adds every command of table.def to the program. The chosen command runs from its callback and
/// leaves its exit status in `status`; a usage mistake is thrown as UsageError.
void add_commands(command_line::Command program, int& status);

}  // namespace taut::cli
