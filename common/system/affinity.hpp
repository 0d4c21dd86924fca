#pragma once

#include <string>

#include "common/result.hpp"

namespace taut {

/// Keeps the calling thread, and the threads that it starts, on the processors of a list such as
/// "0,2-3".
/// Errors    invalid: a malformed list, or a processor that does not exist
[[nodiscard]] Result<void> pin_this_thread(const std::string& processors);

/// Lets the calling thread run wherever the main thread may: for helpers of a pinned thread, which
/// would otherwise compete with it for its processors.
void follow_main_thread();

}  // namespace taut
