#pragma once

#include <string>

namespace taut {

/// What is wrong with the name of a rack, empty if it is valid. It must have 1 to 64 letters,
/// digits, '.', '_' or '-', as it becomes a part of its machines' names ("RACK/HOST").
[[nodiscard]] std::string check_rack(const std::string& name);

}  // namespace taut
