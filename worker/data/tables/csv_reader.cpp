#include "worker/data/tables/csv_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace taut::data {

CsvReader::CsvReader(std::string_view text, char separator, const std::string& name,
                     std::size_t line)
    : text_(text), separator_(separator), name_(name), line_(line) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (line == 1 && text_.starts_with(kByteOrderMark)) {
    place_ = line_begin_ = kByteOrderMark.size();
  }
}

Result<std::vector<CsvField>> CsvReader::next() {
  constexpr std::size_t kMaxColumns = 1U << 20U;
  std::vector<CsvField> fields;
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

Error CsvReader::wrong(std::size_t line, const std::string& what) const {
  return invalid(fmt::format("{}:{}: {}", name_, line, what));
}

void CsvReader::end_line() {
  if (place_ < text_.size() && text_[place_] == '\r') ++place_;
  if (place_ < text_.size() && text_[place_] == '\n') ++place_;
  ++line_;
  line_begin_ = place_;
}

Result<void> CsvReader::read(CsvField& field) {
  if (place_ < text_.size() && text_[place_] == '"') return read_quoted(field);
  const auto is_end = [&](char c) { return c == separator_ || c == '\n' || c == '\r'; };
  const auto* begin = text_.begin() + place_;
  const auto* end = std::find_if(begin, text_.end(), is_end);
  field.text.assign(begin, end);
  place_ += static_cast<std::size_t>(end - begin);
  if (field.text.find('\0') == std::string::npos) return ok();
  return wrong(field.line, "holds a byte 0: this is not a text file");
}

Result<void> CsvReader::read_quoted(CsvField& field) {
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
      return wrong(
          line_, fmt::format("column {}: text follows a closing quote", place_ - line_begin_ + 1));
    }
  }
  return invalid(fmt::format("{}:{}:{}: a quoted field has no closing quote", name_, field.line,
                             field.column));
}

}  // namespace taut::data
