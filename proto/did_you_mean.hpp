#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace taut {

/// How many insertions, deletions, replacements and swaps of neighbours lie between two names.
/// Source    Damerau, "A technique for computer detection and correction of spelling errors",
///           CACM 7(3), 1964
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

/// "; did you mean \"conv1\"?" for the nearest candidate, or nothing where none is near: more than
/// a third of the name would have to change.
template <class Names>
[[nodiscard]] std::string did_you_mean(std::string_view name, const Names& candidates) {
  constexpr std::size_t kLongestName = 64;  // the distance costs the product of the two lengths
  if (name.size() > kLongestName) return {};
  std::size_t nearest = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::string_view best;
  for (const auto& candidate : candidates) {
    const std::string_view other(candidate);
    if (other.size() > kLongestName) continue;
    const std::size_t distance = edit_distance(name, other);
    if (distance < nearest) {
      nearest = distance;
      best = other;
    }
  }
  return best.empty() ? std::string() : "; did you mean \"" + std::string(best) + "\"?";
}

}  // namespace taut
