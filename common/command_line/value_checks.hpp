#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace taut::command_line {

// What is wrong with a value that was typed, as the end of an error: what is required, and what it
// is. Empty: nothing.

/// A whole number from `min` to `max`.
[[nodiscard]] std::string check_whole_number(const std::string& text, std::uint64_t min,
                                             std::uint64_t max);

/// The limits of a number; infinite where there is none.
struct NumberRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool excludes_limits = false;  // the limits themselves are refused
};
/// A finite decimal number.
[[nodiscard]] std::string check_number(const std::string& text, NumberRange range);

/// One of a few words; guesses which was meant.
[[nodiscard]] std::string check_word(const std::string& text,
                                     const std::vector<std::string>& words);

/// A number of bytes from 1 on, with a unit or without: 500, 64MiB, 2GB. On success `bytes` is set.
[[nodiscard]] std::string check_byte_size(const std::string& text, std::uint64_t& bytes);

/// "1 to 256", "at least 1", "greater than 0"; empty where there is nothing to say.
[[nodiscard]] std::string range_text(std::uint64_t min, std::uint64_t max);
[[nodiscard]] std::string range_text(NumberRange range);

/// A value as an error shows it: in quotes, without control characters, at most 60 bytes of it.
[[nodiscard]] std::string in_quotes(const std::string& value);

}  // namespace taut::command_line
