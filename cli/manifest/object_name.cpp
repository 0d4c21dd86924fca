#include "cli/manifest/object_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace taut::cli {
namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

/// Lower case letters, digits and '-', which is neither first nor last.
bool is_label(std::string_view text) {
  const auto is_plain = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || is_digit(letter);
  };
  return !text.empty() && is_plain(text.front()) && is_plain(text.back()) &&
         std::ranges::all_of(text, [&](char letter) { return letter == '-' || is_plain(letter); });
}

/// What a reader of YAML 1.1 takes for a truth value or null.
bool is_yaml_word(std::string_view text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no",  "on",
                                                      "off",  "y",     "n",   "null"};
  return std::ranges::find(kWords, text) != kWords.end();
}

}  // namespace

std::string object_name(const std::string& name) {
  constexpr std::size_t kMax = 40;
  std::string text;
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain = byte < 128 && std::isalnum(byte) != 0;
    text += is_plain ? static_cast<char>(std::tolower(byte)) : '-';
  }
  text.erase(0, std::min(text.find_first_not_of('-'), text.size()));
  // A Service's name must start with a letter.
  if (!text.empty() && is_digit(text.front())) text = "job-" + text;
  text = text.substr(0, kMax);
  while (text.ends_with('-')) text.pop_back();
  if (is_yaml_word(text)) return "job-" + text;
  return text.empty() ? "job" : text;
}

bool is_namespace_name(const std::string& name) {
  constexpr std::size_t kMax = 63;
  return name.size() <= kMax && is_label(name);
}

bool is_claim_name(const std::string& name) {
  constexpr std::size_t kMax = 253;
  std::string_view rest = name;
  while (true) {
    const std::size_t dot = rest.find('.');
    if (!is_label(rest.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return name.size() <= kMax;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace taut::cli
