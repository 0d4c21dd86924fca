#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "worker/data/tables/label_column.hpp"

namespace taut::data {
namespace {

/// An index beyond it is more likely a mistake than a feature.
constexpr std::uint64_t kMaxIndex = 1U << 24U;

struct Entry {
  std::uint64_t row = 0;
  std::uint64_t index = 0;
  float value = 0;
};

class SvmReader {
 public:
  SvmReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<void> read() {
    std::size_t begin = 0;
    while (begin < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      std::string_view line = text_.substr(begin, end - begin);
      line = line.substr(0, line.find('#'));
      TAUT_TRY(read_line(line));
      begin = end + 1;
    }
    if (labels_.empty()) return invalid(fmt::format("{}: holds no row", name_));
    return ok();
  }

  /// columns  that every row has; 0: as many as the highest index needs
  Result<NumberTable> table(std::uint64_t columns) const {
    const std::uint64_t base = has_zero_ ? 0 : 1;
    const std::uint64_t needed = highest_ + 1 - base;
    if (columns != 0 && needed > columns) {
      return invalid(fmt::format("{}: has the index {}, which is beyond the requested {} features",
                                 name_, highest_, columns));
    }
    NumberTable table;
    table.rows = labels_.size();
    table.columns = columns == 0 ? needed : columns;
    if (table.columns == 0) return invalid(fmt::format("{}: holds no feature", name_));
    TAUT_TRY(check_table_size(table.rows, table.columns, name_));
    table.features.resize(table.rows * table.columns);
    for (const Entry& entry : entries_) {
      table.features[entry.row * table.columns + entry.index - base] = entry.value;
    }
    return table;
  }

  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }

 private:
  [[nodiscard]] Error wrong(std::size_t column, const std::string& what) const {
    return invalid(fmt::format("{}:{}:{}: {}", name_, line_, column + 1, what));
  }

  Result<void> read_line(std::string_view line) {
    constexpr std::string_view kSpace = " \t\r";
    std::uint64_t last = 0;
    bool is_first = true;
    for (std::size_t begin = line.find_first_not_of(kSpace); begin != std::string_view::npos;
         begin = line.find_first_not_of(kSpace, begin)) {
      const std::size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
      const std::string_view word = line.substr(begin, end - begin);
      if (is_first && !parse_number(word)) {
        return wrong(begin, fmt::format("\"{}\" is not a label: a line must start with a number",
                                        word.substr(0, 40)));
      }
      if (is_first) {
        labels_.emplace_back(word);
      } else {
        TAUT_TRY(read_entry(word, begin, last));
      }
      is_first = false;
      begin = end;
    }
    return ok();
  }

  /// last  the index before it plus 1; 0: none
  Result<void> read_entry(std::string_view word, std::size_t column, std::uint64_t& last) {
    const std::size_t colon = word.find(':');
    Entry entry{labels_.size() - 1, 0, 0};
    const char* end = word.data() + std::min(colon, word.size());
    const auto [stop, fault] = std::from_chars(word.data(), end, entry.index);
    const auto value =
        colon == std::string_view::npos ? std::nullopt : parse_number(word.substr(colon + 1));
    if (fault != std::errc() || stop != end || !value) {
      return wrong(column, fmt::format("\"{}\" must be INDEX:VALUE", word.substr(0, 40)));
    }
    if (entry.index > kMaxIndex) {
      return wrong(column,
                   fmt::format("the index must be at most {}, is {}", kMaxIndex, entry.index));
    }
    if (entry.index + 1 <= last) {
      return wrong(column,
                   fmt::format("index {} follows {}: indices must ascend", entry.index, last - 1));
    }
    entry.value = *value;
    last = entry.index + 1;
    highest_ = std::max(highest_, entry.index);
    has_zero_ = has_zero_ || entry.index == 0;
    entries_.push_back(entry);
    return ok();
  }

  const std::string_view text_;
  const std::string& name_;
  std::size_t line_ = 0;
  std::vector<std::string> labels_;
  std::vector<Entry> entries_;
  std::uint64_t highest_ = 0;
  bool has_zero_ = false;
};

}  // namespace

Result<NumberTable> parse_svm(const std::string& text, const TableOptions& options,
                              const std::string& name) {
  if (!options.label.empty() || !options.drop.empty()) {
    return invalid(
        fmt::format("{}: columns of LIBSVM's text are not named: a line starts with its "
                    "label; omit --label and --drop",
                    name));
  }
  SvmReader reader(text, name);
  TAUT_TRY(reader.read());
  TAUT_TRY(NumberTable table, reader.table(options.columns));
  set_labels(reader.labels(), options.classes, table);
  return table;
}

}  // namespace taut::data
