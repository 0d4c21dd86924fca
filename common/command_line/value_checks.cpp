#include "common/command_line/value_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "common/did_you_mean.hpp"

namespace taut::command_line {
namespace {

template <class Number>
std::optional<Number> read(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

bool contains(NumberRange range, double value) {
  if (!std::isfinite(value)) return false;
  return range.excludes_limits ? value > range.min && value < range.max
                               : value >= range.min && value <= range.max;
}

struct Unit {
  const char* name;  // in lower case
  std::uint64_t bytes;
};
constexpr std::array<Unit, 11> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"kb", 1000},
                                       {"mb", 1000'000},
                                       {"gb", 1000'000'000},
                                       {"kib", 1ULL << 10},
                                       {"mib", 1ULL << 20},
                                       {"gib", 1ULL << 30},
                                       {"k", 1ULL << 10},
                                       {"m", 1ULL << 20},
                                       {"g", 1ULL << 30}}};

std::optional<std::uint64_t> bytes_of(const std::string& text) {
  const std::size_t digits =
      std::min(text.find_first_not_of("0123456789."), text.size());  // npos: all of it
  const auto count = read<double>(text.substr(0, digits));
  std::string name = text.substr(digits);
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& one) { return name == one.name; });
  constexpr double kMaxBytes = 1e18;
  if (!count || unit == kUnits.end()) return std::nullopt;
  const double bytes = *count * static_cast<double>(unit->bytes);
  if (!(bytes >= 1) || bytes > kMaxBytes) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

std::string in_quotes(const std::string& value) {
  constexpr std::size_t kMaxShown = 60;
  std::string shown = value.substr(0, kMaxShown);
  for (char& c : shown) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  return '"' + shown + (value.size() > kMaxShown ? "..." : "") + '"';
}

std::string range_text(std::uint64_t min, std::uint64_t max) {
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::int32_t>::max();
  if (max < kUnlimited) return fmt::format("{} to {}", min, max);
  return min > 0 ? fmt::format("at least {}", min) : std::string();
}

std::string range_text(NumberRange range) {
  const bool bounded = std::isfinite(range.max);
  if (range.excludes_limits) {
    return bounded ? fmt::format("greater than {:g} and less than {:g}", range.min, range.max)
                   : fmt::format("greater than {:g}", range.min);
  }
  return bounded ? fmt::format("{:g} to {:g}", range.min, range.max)
                 : fmt::format("at least {:g}", range.min);
}

std::string check_whole_number(const std::string& text, std::uint64_t min, std::uint64_t max) {
  const auto value = read<std::uint64_t>(text);
  if (value && *value >= min && *value <= max) return {};
  const std::string range = max == std::numeric_limits<std::uint64_t>::max()
                                ? fmt::format("of at least {}", min)
                                : fmt::format("from {} to {}", min, max);
  return fmt::format("must be a whole number {}, is {}", range, in_quotes(text));
}

std::string check_number(const std::string& text, NumberRange range) {
  const auto value = read<double>(text);
  if (value && contains(range, *value)) return {};
  return fmt::format("must be a number, {}, is {}", range_text(range), in_quotes(text));
}

std::string check_word(const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) != words.end()) return {};
  return fmt::format("must be one of {}, is {}{}", fmt::join(words, ", "), in_quotes(text),
                     did_you_mean(text, words));
}

std::string check_byte_size(const std::string& text, std::uint64_t& bytes) {
  const auto value = bytes_of(text);
  if (!value) {
    return fmt::format("must be a number of bytes such as 500, 64MiB or 2GB, is {}",
                       in_quotes(text));
  }
  bytes = *value;
  return {};
}

}  // namespace taut::command_line
