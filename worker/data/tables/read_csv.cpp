#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "worker/data/tables/csv_reader.hpp"
#include "worker/data/tables/label_column.hpp"

namespace taut::data {
namespace {

bool is_header(const std::vector<CsvField>& fields) {
  return std::ranges::none_of(
      fields, [](const CsvField& field) { return parse_number(field.text).has_value(); });
}

/// Reads the rows after the header into a table.
class CsvTable {
 public:
  CsvTable(const TableOptions& options, std::vector<std::string> names, const std::string& name)
      : options_(options), names_(std::move(names)), name_(name) {}

  Result<void> add(const std::vector<CsvField>& fields) {
    if (table_.rows == 0) {
      fields_ = names_.empty() ? fields.size() : names_.size();
      TAUT_TRY(roles_, column_roles(options_, names_, fields_, name_));
      table_.columns = roles_.features;
    }
    if (fields.size() != fields_) {
      return invalid(fmt::format("{}:{}: has {} fields, and the lines before have {}", name_,
                                 fields.front().line, fields.size(), fields_));
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i == roles_.label) labels_.push_back(fields[i].text);
      if (!roles_.is_feature[i]) continue;
      const auto number = parse_number(fields[i].text);
      if (!number) return not_a_number(fields[i], i);
      table_.features.push_back(*number);
    }
    ++table_.rows;
    return ok();
  }

  Result<NumberTable> finish() && {
    if (table_.rows == 0) return invalid(fmt::format("{}: holds no row of numbers", name_));
    if (roles_.label) set_labels(labels_, options_.classes, table_);
    return std::move(table_);
  }

 private:
  [[nodiscard]] Error not_a_number(const CsvField& field, std::size_t column) const {
    constexpr std::size_t kShown = 40;
    const std::string title = names_.empty() ? std::to_string(column + 1) : names_[column];
    const bool is_missing = field.text.find_first_not_of(" \t") == std::string::npos;
    return invalid(fmt::format(
        "{}:{}:{}: column \"{}\" {}: features must be finite numbers; --drop {} leaves the column "
        "out",
        name_, field.line, field.column, title,
        is_missing ? std::string("is empty")
                   : fmt::format("holds \"{}\"", field.text.substr(0, kShown)),
        title));
  }

  const TableOptions& options_;
  const std::vector<std::string> names_;
  const std::string& name_;
  std::size_t fields_ = 0;
  ColumnRoles roles_;
  std::vector<std::string> labels_;
  NumberTable table_;
};

}  // namespace

Result<NumberTable> parse_csv(const std::string& text, const TableOptions& options,
                              const std::string& name) {
  CsvReader reader(text, options.separator, name);
  TAUT_TRY(std::vector<CsvField> fields, reader.next());
  std::vector<std::string> names;
  if (!fields.empty() && options.header.value_or(is_header(fields))) {
    for (CsvField& field : fields) names.push_back(std::move(field.text));
    TAUT_TRY(fields, reader.next());
  }
  CsvTable table(options, std::move(names), name);
  while (!fields.empty()) {
    TAUT_TRY(table.add(fields));
    TAUT_TRY(fields, reader.next());
  }
  return std::move(table).finish();
}

}  // namespace taut::data
