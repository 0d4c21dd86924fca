#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/result.hpp"
#include "worker/data/tables/number_table.hpp"

namespace taut::data {

/// Writes rows of a table. A name with the extension .h5 or .hdf5 becomes an HDF5 file with the
/// arrays "data", rows x columns, and "label", rows, for an HDF5Data layer; any other becomes the
/// folder of an LMDB of Datums of columns x 1 x 1 floats, for a Data layer.
/// rows      the numbers of the table's rows to write, in order
/// Errors    invalid: a label that a Datum cannot hold; exists: the LMDB's folder; io
[[nodiscard]] Result<void> write_table(const NumberTable& table,
                                       const std::vector<std::uint64_t>& rows,
                                       const std::filesystem::path& out);

/// Rows for training, and those for testing, which training must not see.
struct RowSplit {
  std::vector<std::uint64_t> train;
  std::vector<std::uint64_t> test;
};

/// Splits rows. If some are for testing, both parts are shuffled by the seed; otherwise the rows
/// keep their order.
/// test_share  of the rows, in [0, 1)
/// Errors      invalid: a share that leaves a part without rows
[[nodiscard]] Result<RowSplit> split_rows(std::uint64_t rows, double test_share,
                                          std::uint64_t seed);

/// Where the rows for testing go: "iris_test.h5" for "iris.h5".
[[nodiscard]] std::filesystem::path test_name(const std::filesystem::path& out);

}  // namespace taut::data
