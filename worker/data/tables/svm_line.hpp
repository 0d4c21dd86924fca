#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

/// A feature of LIBSVM's text, "INDEX:VALUE".
struct SvmEntry {
  std::uint64_t index = 0;
  float value = 0;         // finite
  std::size_t column = 0;  // where it starts in its line, from 1
};

/// A line of LIBSVM's text: "LABEL INDEX:VALUE INDEX:VALUE ...", with ascending indices. A '#'
/// starts a comment.
/// Source    Chang and Lin, "LIBSVM: A Library for Support Vector Machines", README
struct SvmLine {
  std::string_view label;  // a number; empty: the line holds nothing
  float label_number = 0;
  std::vector<SvmEntry> entries;
};

/// The place of a line of text, for messages.
struct LinePlace {
  const std::string& name;  // of the file
  std::size_t line = 0;     // from 1

  /// "NAME:LINE:COLUMN: WHAT"; column 0: "NAME:LINE: WHAT".
  [[nodiscard]] Error wrong(std::size_t column, const std::string& what) const;
};

/// Parses one line, without its line end, into `into`, reusing its memory.
/// Errors    invalid, at the column: a label that is not a number, a word that is not INDEX:VALUE,
///           indices that do not ascend
[[nodiscard]] Result<void> parse_svm_line(std::string_view line, const LinePlace& place,
                                          SvmLine& into);

}  // namespace taut::data
