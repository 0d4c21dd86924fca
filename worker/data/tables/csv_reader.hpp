#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

/// A field of a CSV's line.
struct CsvField {
  std::string text;
  std::size_t line = 0;    // where it starts, from 1
  std::size_t column = 0;  // in bytes, from 1
};

/// Cuts a CSV into lines of fields, as RFC 4180 has them: fields in quotes may hold separators,
/// line ends and doubled quotes. The text may be a part of a file that starts where a line does.
class CsvReader {
 public:
  /// text, name  outlive the reader
  /// name        of the file, for messages
  /// line        of the text's first line; a byte order mark is passed over at the start of line 1
  CsvReader(std::string_view text, char separator, const std::string& name, std::size_t line = 1);

  /// The fields of the next line that is not empty; none at the end. Errors: invalid.
  [[nodiscard]] Result<std::vector<CsvField>> next();

  /// Bytes up to the end of the line that next() has returned, and the number of the one after it.
  /// At the text's end the line may continue in what follows the text.
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
