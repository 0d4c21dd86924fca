#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace taut {

/// The number of insertions, deletions, replacements and swaps of adjacent letters between names.
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

/// The letters in lower case, so that "Relu" is near "ReLU".
[[nodiscard]] inline std::string without_case(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// Whether each '_'-separated word of a name is a prefix of the same word of the other:
/// "conv_param" for "convolution_param".
[[nodiscard]] inline bool abbreviates(std::string_view name, std::string_view other) {
  while (true) {
    const std::size_t end = std::min(name.find('_'), name.size());
    const std::size_t other_end = std::min(other.find('_'), other.size());
    constexpr std::size_t kMinWordLength = 2;
    if (end < kMinWordLength || !other.substr(0, other_end).starts_with(name.substr(0, end))) {
      return false;
    }
    if (end == name.size() || other_end == other.size()) {
      return end == name.size() && other_end == other.size();
    }
    name.remove_prefix(end + 1);
    other.remove_prefix(other_end + 1);
  }
}

/// "; did you mean \"conv1\"?" for the nearest candidate, or "" if none is near. A candidate is
/// near if at most a third of the name's letters differ (but at least one may); where both start
/// with the same letter, a third of the longer one's, as for "copys" and "copies". Case is ignored,
/// and an abbreviation is near.
template <class Names>
[[nodiscard]] std::string did_you_mean(std::string_view name, const Names& candidates) {
  constexpr std::size_t kMaxName = 64;  // the distance costs the product of the two lengths
  if (name.empty() || name.size() > kMaxName) return {};
  const std::string lower = without_case(name);
  std::size_t nearest = kMaxName;
  std::string_view best;
  for (const auto& candidate : candidates) {
    const std::string_view other(candidate);
    if (other.size() > kMaxName) continue;
    const std::string other_lower = without_case(other);
    std::size_t distance = edit_distance(lower, other_lower);
    if (abbreviates(lower, other_lower)) distance = std::min<std::size_t>(distance, 1);
    // Few mistakes are in the first letter; without it "folder" would be near "order".
    const bool starts_alike = other_lower.starts_with(lower.front());
    const std::size_t length = starts_alike ? std::max(name.size(), other.size()) : name.size();
    if (distance <= std::max<std::size_t>(1, length / 3) && distance < nearest) {
      nearest = distance;
      best = other;
    }
  }
  return best.empty() ? std::string() : "; did you mean \"" + std::string(best) + "\"?";
}

}  // namespace taut
