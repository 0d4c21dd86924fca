#pragma once

#include <string>

namespace taut {

/// What is wrong with the name of a rack: it must have 1 to 64 letters, digits, '.', '_' or '-', as
/// it becomes a part of its machines' names ("RACK/HOST"). Empty: nothing.
[[nodiscard]] std::string check_rack(const std::string& name);

}  // namespace taut
