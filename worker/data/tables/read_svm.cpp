#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "worker/data/tables/label_column.hpp"
#include "worker/data/tables/svm_line.hpp"

namespace taut::data {
namespace {

/// A larger index is more likely a mistake than a feature.
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
      TAUT_TRY(read_line(text_.substr(begin, end - begin)));
      begin = end + 1;
    }
    if (labels_.empty()) return invalid(fmt::format("{}: holds no row", name_));
    return ok();
  }

  /// columns  of every row; 0: as many as the highest index needs
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
  Result<void> read_line(std::string_view text) {
    const LinePlace place{name_, line_};
    TAUT_TRY(parse_svm_line(text, place, parsed_));
    if (parsed_.label.empty()) return ok();
    labels_.emplace_back(parsed_.label);
    for (const SvmEntry& entry : parsed_.entries) {
      if (entry.index > kMaxIndex) {
        return place.wrong(entry.column, fmt::format("the index must be at most {}, is {}",
                                                     kMaxIndex, entry.index));
      }
      highest_ = std::max(highest_, entry.index);
      has_zero_ = has_zero_ || entry.index == 0;
      entries_.push_back({labels_.size() - 1, entry.index, entry.value});
    }
    return ok();
  }

  const std::string_view text_;
  const std::string& name_;
  std::size_t line_ = 0;
  SvmLine parsed_;
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
