#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/data/sparse/read_records.hpp"

namespace taut::data {

/// Records with few features out of many, in compressed rows: 4 bytes per feature, 4 more in blocks
/// of records with a value other than 1, and 8 per record.
/// Thread    any, once all records are added
class SparseRecords {
 public:
  /// One record; `values` is empty if all are 1.
  struct Record {
    float label = 0;
    std::span<const std::uint32_t> numbers;
    std::span<const float> values;
  };

  /// limit  the maximum memory of the records
  explicit SparseRecords(Bytes limit) : limit_(limit) {}

  /// Adds one. Errors: invalid, it exceeds the limit.
  [[nodiscard]] Result<void> add(float label, std::span<const SparseFeature> features);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// REQUIRES: index < size().
  [[nodiscard]] Record at(std::uint64_t index) const;
  /// The largest number of features of any record.
  [[nodiscard]] std::uint32_t most_features() const { return most_features_; }
  /// Whether each label is -1 or 1.
  [[nodiscard]] bool has_signs_only() const { return has_signs_only_; }
  /// The memory in use.
  [[nodiscard]] Bytes bytes() const;

 private:
  /// Records in separate memory: nothing is copied while more are added.
  struct Block {
    std::uint64_t first = 0;          // record
    std::vector<std::uint32_t> ends;  // of each record, in `numbers`
    std::vector<float> labels;        // of each record
    std::vector<std::uint32_t> numbers;
    std::vector<float> values;  // empty: all are 1

    [[nodiscard]] std::uint64_t bytes() const;
    void add(float label, std::span<const SparseFeature> features);
    void close();
  };

  const Bytes limit_;
  std::uint64_t size_ = 0;
  std::uint64_t closed_bytes_ = 0;  // of all blocks but the last
  std::uint32_t most_features_ = 0;
  bool has_signs_only_ = true;
  std::vector<Block> blocks_;
};

}  // namespace taut::data
