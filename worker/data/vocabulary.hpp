#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

/// The word for a line's end.
inline constexpr std::string_view kLineEnd = "<eos>";

enum class TextUnit : std::uint8_t { kCharacters, kWords };

/// Splits a text into its units: characters are UTF-8 code points (a byte that belongs to none is
/// its own unit), words are separated by spaces, and a line's end is the word "<eos>".
[[nodiscard]] std::vector<std::string_view> split_text(std::string_view text, TextUnit unit);

/// The units that a net knows, numbered from 0. Number 0 is "<unk>": all others.
/// Thread    any; immutable
class Vocabulary {
 public:
  /// The most frequent units of a text (ties go to the first in byte order), numbered in byte
  /// order. The same text gives the same numbers.
  /// max_entries  including "<unk>"; 0: no limit
  [[nodiscard]] static Vocabulary of(std::string_view text, TextUnit unit, std::size_t max_entries);

  /// Parses the output of to_file(). Errors: invalid; the message starts with `name`.
  [[nodiscard]] static Result<Vocabulary> parse(std::string_view file, const std::string& name);

  /// One unit per line in the order of the numbers, after a line that names the kind of unit. A
  /// backslash, a line feed, a carriage return and a tab are written as \\, \n, \r and \t.
  [[nodiscard]] std::string to_file() const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] TextUnit unit() const { return unit_; }
  /// REQUIRES: number < size().
  [[nodiscard]] const std::string& entry(std::size_t number) const { return entries_[number]; }
  /// Every unit of a text as its number.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text) const;

 private:
  Vocabulary(TextUnit unit, std::vector<std::string> entries);

  TextUnit unit_;
  std::vector<std::string> entries_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace taut::data
