#pragma once

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace taut {

/// A number in etcd's answer, which encodes 64-bit integers as strings; 0 if absent.
[[nodiscard]] inline std::int64_t etcd_number(const nlohmann::json& content, const char* name) {
  const auto found = content.find(name);
  if (found == content.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  return found->is_string() ? std::strtoll(found->get<std::string>().c_str(), nullptr, 10) : 0;
}

}  // namespace taut
