#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "worker/data/tables/label_column.hpp"

namespace taut::data {
namespace {

constexpr std::size_t kMaxColumns = 1U << 20U;

struct Field {
  std::string text;
  std::size_t line = 0;    // where it starts, from 1
  std::size_t column = 0;  // in bytes, from 1
};

/// Cuts a CSV into lines of fields.
class CsvReader {
 public:
  CsvReader(std::string_view text, char separator, const std::string& name)
      : text_(text), separator_(separator), name_(name) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) place_ = line_begin_ = kByteOrderMark.size();
  }

  /// The fields of the next line that is not empty; none at the end. Errors: invalid.
  Result<std::vector<Field>> next() {
    std::vector<Field> fields;
    while (place_ < text_.size() && (text_[place_] == '\n' || text_[place_] == '\r')) end_line();
    if (place_ >= text_.size()) return fields;
    do {
      if (fields.size() == kMaxColumns) {
        return wrong(line_, fmt::format("has more than {} fields", kMaxColumns));
      }
      fields.push_back({{}, line_, place_ - line_begin_ + 1});
      TAUT_TRY(read(fields.back()));
    } while (place_ < text_.size() && text_[place_] == separator_ && ++place_ <= text_.size());
    end_line();
    return fields;
  }

 private:
  [[nodiscard]] Error wrong(std::size_t line, const std::string& what) const {
    return invalid(fmt::format("{}:{}: {}", name_, line, what));
  }

  void end_line() {
    if (place_ < text_.size() && text_[place_] == '\r') ++place_;
    if (place_ < text_.size() && text_[place_] == '\n') ++place_;
    ++line_;
    line_begin_ = place_;
  }

  Result<void> read(Field& field) {
    if (place_ < text_.size() && text_[place_] == '"') return read_quoted(field);
    const auto is_end = [&](char c) { return c == separator_ || c == '\n' || c == '\r'; };
    const auto* begin = text_.begin() + place_;
    const auto* end = std::find_if(begin, text_.end(), is_end);
    field.text.assign(begin, end);
    place_ += static_cast<std::size_t>(end - begin);
    if (field.text.find('\0') == std::string::npos) return ok();
    return wrong(field.line, "holds a byte 0: this is not a text file");
  }

  Result<void> read_quoted(Field& field) {
    for (++place_; place_ < text_.size(); ++place_) {
      if (text_[place_] == '\n') {
        ++line_;
        line_begin_ = place_ + 1;
      }
      if (text_[place_] != '"') {
        field.text += text_[place_];
      } else if (place_ + 1 < text_.size() && text_[place_ + 1] == '"') {
        field.text += text_[++place_];
      } else {
        ++place_;
        const bool ends = place_ == text_.size() || text_[place_] == separator_ ||
                          text_[place_] == '\n' || text_[place_] == '\r';
        if (ends) return ok();
        return wrong(line_, fmt::format("column {}: text follows a closing quote",
                                        place_ - line_begin_ + 1));
      }
    }
    return invalid(
        fmt::format("{}:{}:{}: a quoted field does not end", name_, field.line, field.column));
  }

  const std::string_view text_;
  const char separator_;
  const std::string& name_;
  std::size_t place_ = 0;
  std::size_t line_ = 1;
  std::size_t line_begin_ = 0;
};

bool is_header(const std::vector<Field>& fields) {
  return std::ranges::none_of(
      fields, [](const Field& field) { return parse_number(field.text).has_value(); });
}

/// Reads the rows after the header into a table.
class CsvTable {
 public:
  CsvTable(const TableOptions& options, std::vector<std::string> names, const std::string& name)
      : options_(options), names_(std::move(names)), name_(name) {}

  Result<void> add(const std::vector<Field>& fields) {
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
  [[nodiscard]] Error not_a_number(const Field& field, std::size_t column) const {
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
  TAUT_TRY(std::vector<Field> fields, reader.next());
  std::vector<std::string> names;
  if (!fields.empty() && options.header.value_or(is_header(fields))) {
    for (Field& field : fields) names.push_back(std::move(field.text));
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
