#include "common/system/user_name.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace taut {

std::string user_name() {
  constexpr std::size_t kMaxBytes = 128;
  std::array<char, 4096> memory{};
  passwd entry{};
  passwd* found = nullptr;
  const int failed = getpwuid_r(geteuid(), &entry, memory.data(), memory.size(), &found);
  if (failed != 0 || found == nullptr) return {};
  std::string name = found->pw_name;
  return name.size() <= kMaxBytes ? name : std::string();
}

}  // namespace taut
