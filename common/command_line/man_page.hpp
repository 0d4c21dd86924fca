#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/command_line/command_facts.hpp"

namespace taut::command_line {

/// The parts of a man page that CLI11 does not know.
struct ManNotes {
  std::string version{};
  std::string purpose{};  // the line after the name, e.g. "trains jobs as a member of a cluster"
  std::string description{};  // a paragraph or two, with an empty line between them
  std::vector<std::pair<std::string, std::string>> environment{};  // variable, what it does
  std::vector<std::string> see_also{};                             // programs
};

/// The program's page in section 1: roff with the man macros.
/// date      "2026-11-22"
[[nodiscard]] std::string man_page(const CommandFacts& program, const ManNotes& notes,
                                   const std::string& date);

}  // namespace taut::command_line
