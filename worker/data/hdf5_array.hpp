#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/hdf5/hdf5_reader.hpp"
#include "common/result.hpp"

namespace taut::data {

/// An array of an HDF5 file, read as floats record by record: the first axis counts the records,
/// and the others are a record's shape.
/// Thread    any; several at a time
class Hdf5Array {
 public:
  /// Errors    invalid: not numbers; no extent, or one of 0; an array that must be read as a whole
  ///           and exceeds half of the available memory
  [[nodiscard]] static Result<Hdf5Array> open(const std::filesystem::path& file,
                                              const hdf5::Dataset& dataset);

  [[nodiscard]] std::uint64_t records() const { return records_; }
  /// The shape of one record.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }

  /// Reads consecutive records, starting with record `first`.
  /// REQUIRES: whole records within the array. Errors: io; invalid, the file shrank.
  [[nodiscard]] Result<void> read(std::uint64_t first, std::span<float> into) const;

 private:
  Hdf5Array() = default;

  std::uint64_t records_ = 0;
  std::uint64_t elements_ = 1;  // of a record
  std::vector<std::int64_t> shape_;
  std::optional<TensorFile> file_;  // absent if `values_` holds the array
  ElementType type_ = ElementType::kF32;
  std::uint64_t offset_ = 0;  // bytes
  std::vector<float> values_;
};

}  // namespace taut::data
