#pragma once

#include <string_view>

namespace taut::detail {

/// Prints the failed condition with its place and aborts. Thread: any.
[[noreturn]] void check_failed(std::string_view condition, std::string_view file, int line,
                               std::string_view message);

}  // namespace taut::detail

/// Aborts, in every build, when one of our own assumptions is broken. Never for input from outside.
#define TAUT_CHECK(condition, message)                                         \
  do {                                                                         \
    if (!(condition)) [[unlikely]] {                                           \
      ::taut::detail::check_failed(#condition, __FILE__, __LINE__, (message)); \
    }                                                                          \
  } while (false)
