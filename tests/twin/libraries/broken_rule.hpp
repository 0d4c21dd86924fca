#pragma once

#include <functional>
#include <string>

namespace taut::twin::test {

/// Runs the current test in its own process, up to this call, and `breaks` there; returns what
/// that process wrote to standard error. The twin is expected to end it.
/// REQUIRES  the test's name has no comma, bracket or asterisk; one call of a test is reached first
[[nodiscard]] std::string what_the_twin_says(const char* file, int line,
                                             const std::function<void()>& breaks);

}  // namespace taut::twin::test

/// The twin objects to what is done in the last argument, and names the rule.
#define REQUIRE_BROKEN(rule, ...)                                                         \
  REQUIRE_THAT(taut::twin::test::what_the_twin_says(__FILE__, __LINE__, [&] __VA_ARGS__), \
               Catch::Matchers::Contains(rule))
