#pragma once

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::schedule {

/// The largest time in a trace, in the year 2096 where times count from 1970. For much larger ones
/// a double lacks the microseconds in which the simulation counts.
inline constexpr double kMaxSeconds = 4e9;

/// A text of lines with ',' between fields; the first line names the columns.
class TraceTable {
 public:
  /// of_line   what a line describes, for errors
  /// Errors    no lines; a line with more or fewer fields than the first
  [[nodiscard]] static Result<TraceTable> parse(std::string_view text, const std::string& name,
                                                std::string_view of_line = "job");

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] bool has(std::initializer_list<std::string_view> columns) const;
  /// REQUIRES  the column exists
  [[nodiscard]] std::string_view text(std::size_t row, std::string_view column) const;
  /// Errors    not a number, less than `min`, equal to it if `above`, or greater than `max`
  [[nodiscard]] Result<double> number(std::size_t row, std::string_view column, double min = 0,
                                      bool above = false, double max = kMaxSeconds) const;
  [[nodiscard]] Result<std::uint32_t> whole(std::size_t row, std::string_view column,
                                            std::uint32_t min, std::uint32_t max) const;
  /// "2017-10-03 14:02:11" as seconds since 1970, at most kMaxSeconds.
  [[nodiscard]] Result<double> time(std::size_t row, std::string_view column) const;
  /// The error "FILE:12:3: num_gpu must be ..., is "0"", with the line and column of the field.
  [[nodiscard]] Error wrong(std::size_t row, std::string_view column,
                            const std::string& required) const;

 private:
  struct Row {
    std::size_t line = 0;
    std::vector<std::string_view> fields;
  };

  std::string name_;
  std::map<std::string_view, std::size_t> columns_;
  std::vector<Row> rows_;
};

}  // namespace taut::schedule
