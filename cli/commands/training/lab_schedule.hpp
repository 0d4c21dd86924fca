#pragma once

#include "cli/commands/shared_options.hpp"

namespace taut::cli {

/// Adds `tautline lab schedule`.
void add_lab_schedule(Command& lab, int& status);

}  // namespace taut::cli
