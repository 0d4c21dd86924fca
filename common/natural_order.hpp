#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace taut {

/// Orders names as people count: "worker2" before "worker10". Digits compare as numbers;
/// names that differ only in leading zeros compare as text, so that no two names are equal.
struct NaturalOrder {
  using is_transparent = void;

  [[nodiscard]] bool operator()(std::string_view a, std::string_view b) const {
    const int first = compare(a, b);
    return first != 0 ? first < 0 : a < b;
  }

 private:
  [[nodiscard]] static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  /// Takes the digits at the front, without leading zeros.
  [[nodiscard]] static std::string_view take_number(std::string_view& text) {
    const auto end = std::ranges::find_if_not(text, is_digit) - text.begin();
    std::string_view number = text.substr(0, static_cast<std::size_t>(end));
    text.remove_prefix(number.size());
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
  }
  [[nodiscard]] static int compare(std::string_view a, std::string_view b) {
    while (!a.empty() && !b.empty()) {
      if (is_digit(a.front()) && is_digit(b.front())) {
        const std::string_view left = take_number(a);
        const std::string_view right = take_number(b);
        if (left.size() != right.size()) return left.size() < right.size() ? -1 : 1;
        if (const int order = left.compare(right); order != 0) return order;
        continue;
      }
      if (a.front() != b.front()) {
        return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front()) ? -1
                                                                                             : 1;
      }
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
    if (a.empty() && b.empty()) return 0;
    return a.empty() ? -1 : 1;
  }
};

}  // namespace taut
