#include "worker/data/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace taut::data {
namespace {

constexpr std::string_view kUnknown = "<unk>";
constexpr std::string_view kCharactersHead = "tautline vocabulary of characters";
constexpr std::string_view kWordsHead = "tautline vocabulary of words";

/// Bytes of the code point that starts with `first`; 1 if none does.
std::size_t code_point_bytes(unsigned char first) {
  if (first >= 0xF0 && first < 0xF8) return 4;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xC0 && first < 0xE0 ? 2 : 1;
}

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> units;
  units.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t bytes = code_point_bytes(static_cast<unsigned char>(text[at]));
    const std::string_view rest = text.substr(at + 1, bytes - 1);
    const bool whole = rest.size() == bytes - 1 && std::ranges::all_of(rest, [](char byte) {
                         return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
                       });
    if (!whole) bytes = 1;
    units.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return units;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> units;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n\v\f", at), text.size());
    if (end > at) units.push_back(text.substr(at, end - at));
    if (end < text.size() && text[end] == '\n') units.push_back(kLineEnd);
    at = end + 1;
  }
  return units;
}

constexpr std::array<std::pair<char, char>, 4> kEscapes{
    {{'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

std::string escaped(const std::string& unit) {
  std::string line;
  for (const char byte : unit) {
    const auto escape = std::ranges::find(kEscapes, byte, &std::pair<char, char>::first);
    if (escape != kEscapes.end()) line += '\\';
    line += escape != kEscapes.end() ? escape->second : byte;
  }
  return line;
}

Result<std::string> unescaped(std::string_view line) {
  std::string unit;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\r' || line[i] == '\t') {
      return invalid("has a carriage return or a tabulator, which must be written as \\r and \\t");
    }
    if (line[i] != '\\') {
      unit += line[i];
      continue;
    }
    const char code = ++i < line.size() ? line[i] : '\0';
    const auto escape = std::ranges::find(kEscapes, code, &std::pair<char, char>::second);
    if (escape == kEscapes.end())
      return invalid(
          "ends a line with a backslash, or has an unknown "
          "escape after one");
    unit += escape->first;
  }
  return unit;
}

}  // namespace

std::vector<std::string_view> split_text(std::string_view text, TextUnit unit) {
  return unit == TextUnit::kWords ? split_words(text) : split_characters(text);
}

Vocabulary::Vocabulary(TextUnit unit, std::vector<std::string> entries)
    : unit_(unit), entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    numbers_.emplace(entries_[i], static_cast<std::uint32_t>(i));
  }
}

Vocabulary Vocabulary::of(std::string_view text, TextUnit unit, std::size_t max_entries) {
  std::unordered_map<std::string_view, std::uint64_t> counts;
  for (const std::string_view found : split_text(text, unit)) ++counts[found];
  counts.erase(kUnknown);
  std::vector<std::pair<std::string_view, std::uint64_t>> order(counts.begin(), counts.end());
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (max_entries > 0 && order.size() > max_entries - 1) order.resize(max_entries - 1);
  std::ranges::sort(order);
  std::vector<std::string> entries{std::string(kUnknown)};
  for (const auto& [found, count] : order) entries.emplace_back(found);
  return {unit, std::move(entries)};
}

Result<Vocabulary> Vocabulary::parse(std::string_view file, const std::string& name) {
  std::vector<std::string> lines;
  while (!file.empty()) {
    const std::size_t end = file.find('\n');
    if (end == std::string_view::npos) {
      return invalid(fmt::format("{}: truncated: its last line has no end", name));
    }
    lines.emplace_back(file.substr(0, end));
    file.remove_prefix(end + 1);
  }
  const bool words = !lines.empty() && lines[0] == kWordsHead;
  if (!words && (lines.empty() || lines[0] != kCharactersHead)) {
    return invalid(fmt::format("{}: no vocabulary: its first line is neither \"{}\" nor \"{}\"",
                               name, kCharactersHead, kWordsHead));
  }
  std::vector<std::string> entries;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    auto unit = unescaped(lines[i]);
    if (!unit) return invalid(fmt::format("{}:{}: {}", name, i + 1, unit.error().message));
    entries.push_back(std::move(unit).value());
  }
  if (entries.empty() || entries[0] != kUnknown) {
    return invalid(fmt::format("{}: its first entry is not \"{}\"", name, kUnknown));
  }
  Vocabulary vocabulary(words ? TextUnit::kWords : TextUnit::kCharacters, std::move(entries));
  if (vocabulary.numbers_.size() == vocabulary.entries_.size()) return vocabulary;
  return invalid(fmt::format("{}: an entry occurs twice", name));
}

std::string Vocabulary::to_file() const {
  std::string file(unit_ == TextUnit::kWords ? kWordsHead : kCharactersHead);
  file += '\n';
  for (const std::string& entry : entries_) file += escaped(entry) + '\n';
  return file;
}

std::vector<std::uint32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::uint32_t> numbers;
  for (const std::string_view unit : split_text(text, unit_)) {
    const auto known = numbers_.find(std::string(unit));
    numbers.push_back(known == numbers_.end() ? 0 : known->second);
  }
  return numbers;
}

}  // namespace taut::data
