#include "worker/data/tables/svm_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "worker/data/tables/label_column.hpp"

namespace taut::data {
namespace {

constexpr std::size_t kShownOfWord = 40;

Result<SvmEntry> parse_entry(std::string_view word, std::size_t column, const LinePlace& place) {
  const std::size_t colon = word.find(':');
  SvmEntry entry{.column = column};
  const char* end = word.data() + std::min(colon, word.size());
  const auto [stop, fault] = std::from_chars(word.data(), end, entry.index);
  const auto value =
      colon == std::string_view::npos ? std::nullopt : parse_number(word.substr(colon + 1));
  if (fault != std::errc() || stop != end || !value) {
    return place.wrong(column,
                       fmt::format("\"{}\" must be INDEX:VALUE", word.substr(0, kShownOfWord)));
  }
  entry.value = *value;
  return entry;
}

}  // namespace

Error LinePlace::wrong(std::size_t column, const std::string& what) const {
  return invalid(column > 0 ? fmt::format("{}:{}:{}: {}", name, line, column, what)
                            : fmt::format("{}:{}: {}", name, line, what));
}

Result<void> parse_svm_line(std::string_view line, const LinePlace& place, SvmLine& into) {
  constexpr std::string_view kSpace = " \t\r";
  into.label = {};
  into.entries.clear();
  line = line.substr(0, line.find('#'));
  for (std::size_t begin = line.find_first_not_of(kSpace); begin != std::string_view::npos;
       begin = line.find_first_not_of(kSpace, begin)) {
    const std::size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    if (into.label.empty()) {
      const auto number = parse_number(word);
      if (!number) {
        return place.wrong(begin + 1,
                           fmt::format("\"{}\" is not a label: a line must start with a number",
                                       word.substr(0, kShownOfWord)));
      }
      into.label = word;
      into.label_number = *number;
    } else {
      TAUT_TRY(const SvmEntry entry, parse_entry(word, begin + 1, place));
      if (!into.entries.empty() && entry.index <= into.entries.back().index) {
        return place.wrong(begin + 1, fmt::format("index {} follows {}: indices must ascend",
                                                  entry.index, into.entries.back().index));
      }
      into.entries.push_back(entry);
    }
    begin = end;
  }
  return ok();
}

}  // namespace taut::data
