#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

/// A field of a CSV line.
struct CsvField {
  std::string text;
  std::size_t line = 0;    // where it starts, from 1
  std::size_t column = 0;  // in bytes, from 1
};

/// Splits a CSV into lines of fields by RFC 4180: fields in quotes may contain separators, line
/// ends and doubled quotes. The text may be a part of a file, starting at the start of a line.
class CsvReader {
 public:
  /// text, name  outlive the reader
  /// name        of the file, for messages
  /// line        the number of the text's first line; line 1 may start with a byte order mark
  CsvReader(std::string_view text, char separator, const std::string& name, std::size_t line = 1);

  /// Returns the fields of the next non-empty line; no fields at the end. Errors: invalid.
  [[nodiscard]] Result<std::vector<CsvField>> next();

  /// Bytes up to the end of the line that next() returned, and the number of the line after it. At
  /// the text's end the line may continue in the rest of the file.
  [[nodiscard]] std::size_t place() const { return place_; }
  [[nodiscard]] std::size_t line() const { return line_; }
  [[nodiscard]] bool at_end() const { return place_ >= text_.size(); }

 private:
  [[nodiscard]] Error wrong(std::size_t line, const std::string& what) const;
  void end_line();
  [[nodiscard]] Result<void> read(CsvField& field);
  [[nodiscard]] Result<void> read_quoted(CsvField& field);

  const std::string_view text_;
  const char separator_;
  const std::string& name_;
  std::size_t place_ = 0;
  std::size_t line_;
  std::size_t line_begin_ = 0;
};

}  // namespace taut::data
