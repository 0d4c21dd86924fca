#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/command_line/command_facts.hpp"

namespace taut::command_line {

/// What --help prints: usage, arguments, options, commands in their groups, and the footer, in
/// lines of at most 80 columns unless a word is longer.
[[nodiscard]] std::string help_text(const CommandFacts& command);

/// "tautline train [OPTIONS] [JOB]".
[[nodiscard]] std::string usage(const CommandFacts& command);

/// "--slack N", "--device auto|cpu|cuda", "FILE...".
[[nodiscard]] std::string option_label(const OptionFacts& option);

/// What it does, with its default if that can be printed.
[[nodiscard]] std::string option_help(const OptionFacts& option);

/// Text as lines of at most `width` columns, broken between words.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, std::size_t width);

}  // namespace taut::command_line
