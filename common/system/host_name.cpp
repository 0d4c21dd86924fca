#include "common/system/host_name.hpp"

#include <unistd.h>

#include <array>

namespace taut {

std::string host_name() {
  std::array<char, 256> name{};  // the last byte stays zero if a longer one is cut
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace taut
