#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace taut::command_line {

// Checks of values that a user typed. Each returns the end of an error message: what is required,
// and what the value is; empty if it is valid.

/// A whole number from `min` to `max`.
[[nodiscard]] std::string check_whole_number(const std::string& text, std::uint64_t min,
                                             std::uint64_t max);

/// The limits of a number; infinite if there is none.
struct NumberRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool excludes_limits = false;  // the limits themselves are refused
};
/// A finite decimal number.
[[nodiscard]] std::string check_number(const std::string& text, NumberRange range);

/// One of a few words; the message suggests the one that was probably meant.
[[nodiscard]] std::string check_word(const std::string& text,
                                     const std::vector<std::string>& words);

/// A number of bytes, at least 1, unit optional: 500, 64MiB, 2GB. On success `bytes` is set.
[[nodiscard]] std::string check_byte_size(const std::string& text, std::uint64_t& bytes);

/// "1 to 256", "at least 1", "greater than 0"; empty if there is no limit to state.
[[nodiscard]] std::string range_text(std::uint64_t min, std::uint64_t max);
[[nodiscard]] std::string range_text(NumberRange range);

/// A value as errors show it: in quotes, without control characters, at most 60 bytes of it.
[[nodiscard]] std::string in_quotes(const std::string& value);

}  // namespace taut::command_line
