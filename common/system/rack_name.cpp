#include "common/system/rack_name.hpp"

#include <string_view>

namespace taut {

std::string check_rack(const std::string& name) {
  constexpr std::size_t kMaxBytes = 64;
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const bool is_plain = name.find_first_not_of(kPlain) == std::string::npos;
  if (!name.empty() && name.size() <= kMaxBytes && is_plain) return {};
  return "must be 1 to 64 letters, digits, '.', '_' or '-'";
}

}  // namespace taut
