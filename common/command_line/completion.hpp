#pragma once

#include <string>

#include "common/command_line/command_facts.hpp"

namespace taut::command_line {

/// A script that completes the program's commands, options and their values in bash.
[[nodiscard]] std::string bash_completion(const CommandFacts& program);
/// A completion script for zsh, to be installed as "_NAME" in a folder of its `fpath`.
[[nodiscard]] std::string zsh_completion(const CommandFacts& program);

}  // namespace taut::command_line
