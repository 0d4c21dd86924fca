#include "worker/data/sparse/table_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "worker/data/tables/label_column.hpp"
#include "worker/data/tables/svm_line.hpp"

namespace taut::data {
namespace {

/// Where a column is, from its name. Errors: invalid.
Result<std::size_t> place_of(const std::string& column, const char* field,
                             const std::vector<std::string>& titles, const std::string& name) {
  const auto found = std::ranges::find(titles, column);
  if (found != titles.end()) return static_cast<std::size_t>(found - titles.begin());
  constexpr std::size_t kShownTitles = 12;
  const auto end =
      titles.begin() + static_cast<std::ptrdiff_t>(std::min(titles.size(), kShownTitles));
  return invalid(fmt::format(
      "{}: has no column \"{}\", which sparse_data_param.{} names: its first line has {}{}", name,
      column, field, fmt::join(titles.begin(), end, ", "),
      titles.size() > kShownTitles ? ", ..." : ""));
}

Error not_a_number(const CsvField& field, const std::string& title, const std::string& name,
                   const char* way_out) {
  constexpr std::size_t kShownText = 40;
  return LinePlace{name, field.line}.wrong(
      field.column, fmt::format("column \"{}\" holds \"{}\", which is not a finite number: {}",
                                title, field.text.substr(0, kShownText), way_out));
}

}  // namespace

Result<TableColumns> TableColumns::of(const pb::SparseDataParameter& layer,
                                      const std::vector<CsvField>& head, const std::string& name) {
  if (head.empty()) {
    return invalid(fmt::format("{}: is empty: the first line must name the columns", name));
  }
  TableColumns columns;
  columns.name_ = name;
  columns.features_ = layer.features();
  for (const CsvField& field : head) columns.titles_.push_back(field.text);
  TAUT_TRY(columns.label_, place_of(layer.label(), "label", columns.titles_, name));
  for (const std::string& column : layer.category()) {
    TAUT_TRY(const std::size_t place, place_of(column, "category", columns.titles_, name));
    columns.columns_.push_back({place, true, ColumnHash(column), 0});
  }
  for (const std::string& column : layer.number()) {
    TAUT_TRY(const std::size_t place, place_of(column, "number", columns.titles_, name));
    const ColumnHash hash(column);
    columns.columns_.push_back({place, false, hash, hash.number(columns.features_)});
  }
  return columns;
}

Result<void> TableColumns::read(const std::vector<CsvField>& fields, TableRecord& into) const {
  if (fields.size() != titles_.size()) {
    return LinePlace{name_, fields.front().line}.wrong(
        0, fmt::format("has {} fields, and the first line names {} columns: is "
                       "sparse_data_param.separator right?",
                       fields.size(), titles_.size()));
  }
  const auto label = parse_number(fields[label_].text);
  if (!label) {
    return not_a_number(fields[label_], titles_[label_], name_, "number the classes from 0");
  }
  into.label = *label;
  into.features.clear();
  for (const Column& column : columns_) {
    const CsvField& field = fields[column.place];
    if (field.text.empty()) continue;
    if (column.is_category) {
      into.features.push_back({column.hash.number(field.text, features_), 1});
      continue;
    }
    const auto value = parse_number(field.text);
    if (!value) {
      return not_a_number(field, titles_[column.place], name_,
                          "name it as a category, or leave the field empty");
    }
    if (*value != 0) into.features.push_back({column.number, *value});
  }
  return ok();
}

}  // namespace taut::data
