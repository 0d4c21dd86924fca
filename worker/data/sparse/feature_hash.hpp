#pragma once

#include <cstdint>
#include <string_view>

#include "common/ssp/row_buckets.hpp"

namespace taut::data {

/// Numbers the features of a table's column: a pure function of the column's name and the text, so
/// that every file and process gives a feature the same number. Features may share a number; if
/// `features` is n times the number of distinct ones, about one in n does.
/// Source    Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009;
///           Fowler, Noll, Vo: FNV-1a, 64 bits, which `mixed` then scrambles
class ColumnHash {
 public:
  explicit ColumnHash(std::string_view column) : name_(continued(kBasis, column)) {}

  /// The number of the column itself: its FNV-1a, mixed, modulo `features`.
  [[nodiscard]] std::uint32_t number(std::uint64_t features) const {
    return static_cast<std::uint32_t>(mixed(name_) % features);
  }
  /// The number of a category: the hash of the name, a byte 0 and the text.
  /// REQUIRES: features is from 1 to 2^32.
  [[nodiscard]] std::uint32_t number(std::string_view text, std::uint64_t features) const {
    constexpr std::string_view kEndOfName("\0", 1);
    return static_cast<std::uint32_t>(mixed(continued(continued(name_, kEndOfName), text)) %
                                      features);
  }

 private:
  static constexpr std::uint64_t kBasis = 0xcbf29ce484222325ULL;

  static constexpr std::uint64_t continued(std::uint64_t hash, std::string_view text) {
    for (const char one : text) {
      hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3ULL;
    }
    return hash;
  }

  std::uint64_t name_;
};

}  // namespace taut::data
