#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

// Tables of numbers: CSV, LIBSVM's sparse text and NumPy's arrays.
namespace taut::data {

/// Rows of features, with a label each if the table has labels.
struct NumberTable {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;         // features of a row; at least 1
  std::vector<float> features;       // [rows x columns], row by row; finite
  std::vector<float> labels;         // [rows]; empty if the table has none
  std::vector<std::string> classes;  // the names of label 0, 1, ...; empty: labels are numbers
};

/// How a file becomes a table.
struct TableOptions {
  std::string label;              // a column's name, or its number from 1; empty: no label
  std::vector<std::string> drop;  // columns to leave out, named in the same way
  std::optional<bool> header;     // CSV; absent: the first line is one if no field is a number
  char separator = ',';           // CSV
  bool classes = false;           // labels that are numbers are numbered as classes too
  std::uint64_t columns = 0;      // LIBSVM: features of a row; 0: the highest index of the file
};

/// Whether a path has a table's extension: .csv, .tsv, .svm or .libsvm, plain or .gz, or .npy.
[[nodiscard]] bool is_table_name(const std::filesystem::path& path);

/// Reads a table; the format follows from its name.
/// Errors    not_found; invalid, at line and column: text that is not a number, a line of different
///           length, a column that does not exist; a table that is larger than half of the
///           available memory
[[nodiscard]] Result<NumberTable> read_table(const std::filesystem::path& path,
                                             const TableOptions& options);

/// Parses CSV by RFC 4180: fields in quotes may contain separators, line ends and doubled quotes.
/// Labels that are not all numbers become classes, numbered in the order of their bytes.
/// name      the file's name in messages
[[nodiscard]] Result<NumberTable> parse_csv(const std::string& text, const TableOptions& options,
                                            const std::string& name);

/// Parses LIBSVM's text: "LABEL INDEX:VALUE INDEX:VALUE ..." on each line, indices from 1 (or from
/// 0 if the file has index 0); missing features are 0. A '#' starts a comment.
/// Source    Chang and Lin, "LIBSVM: A Library for Support Vector Machines", README
[[nodiscard]] Result<NumberTable> parse_svm(const std::string& text, const TableOptions& options,
                                            const std::string& name);

/// Parses a two-dimensional array of little-endian numbers, rows x columns, in C or Fortran order.
/// Source    NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays"
[[nodiscard]] Result<NumberTable> parse_npy(const std::string& bytes, const TableOptions& options,
                                            const std::string& name);

}  // namespace taut::data
