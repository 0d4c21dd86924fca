#include "common/check.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace taut::detail {

void check_failed(std::string_view condition, std::string_view file, int line,
                  std::string_view message) {
  const std::string text = std::string(file) + ":" + std::to_string(line) +
                           ": check failed: " + std::string(condition) + ": " +
                           std::string(message) + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace taut::detail
