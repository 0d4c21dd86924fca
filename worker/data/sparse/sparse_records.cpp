#include "worker/data/sparse/sparse_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace taut::data {
namespace {

/// Features per block: the unused capacity of one block's vectors is small next to a large file.
constexpr std::size_t kFeaturesOfBlock = std::size_t{1} << 20U;
constexpr std::size_t kRecordsOfBlock = std::size_t{1} << 18U;

}  // namespace

std::uint64_t SparseRecords::Block::bytes() const {
  return (ends.capacity() + labels.capacity() + numbers.capacity() + values.capacity()) *
         sizeof(float);
}

void SparseRecords::Block::add(float label, std::span<const SparseFeature> features) {
  labels.push_back(label);
  for (const SparseFeature& feature : features) {
    if (feature.value != 1 && values.empty()) values.assign(numbers.size(), 1.0F);
    const bool has_values = feature.value != 1 || !values.empty();
    numbers.push_back(feature.number);
    if (has_values) values.push_back(feature.value);
  }
  ends.push_back(static_cast<std::uint32_t>(numbers.size()));
}

void SparseRecords::Block::close() {
  ends.shrink_to_fit();
  labels.shrink_to_fit();
  numbers.shrink_to_fit();
  values.shrink_to_fit();
}

Result<void> SparseRecords::add(float label, std::span<const SparseFeature> features) {
  const auto is_full = [&](const Block& block) {
    return block.numbers.size() + features.size() > kFeaturesOfBlock ||
           block.ends.size() == kRecordsOfBlock;
  };
  if (blocks_.empty() || is_full(blocks_.back())) {
    if (!blocks_.empty()) {
      blocks_.back().close();
      closed_bytes_ += blocks_.back().bytes();
    }
    blocks_.emplace_back().first = size_;
  }
  blocks_.back().add(label, features);
  if (bytes() > limit_) {
    return invalid(
        fmt::format("the records up to here take more than the {} MiB that they may, half of the "
                    "available memory: divide the file, or train where more memory is available",
                    limit_.value() >> 20U));
  }
  ++size_;
  most_features_ = std::max(most_features_, static_cast<std::uint32_t>(features.size()));
  has_signs_only_ = has_signs_only_ && (label == 1 || label == -1);
  return ok();
}

SparseRecords::Record SparseRecords::at(std::uint64_t index) const {
  const Block& block = *std::prev(std::ranges::upper_bound(blocks_, index, {}, &Block::first));
  const auto place = static_cast<std::size_t>(index - block.first);
  const std::uint32_t begin = place == 0 ? 0 : block.ends[place - 1];
  const std::uint32_t count = block.ends[place] - begin;
  Record record{block.labels[place], std::span(block.numbers).subspan(begin, count), {}};
  if (!block.values.empty()) record.values = std::span(block.values).subspan(begin, count);
  return record;
}

Bytes SparseRecords::bytes() const {
  return Bytes(closed_bytes_ + (blocks_.empty() ? 0 : blocks_.back().bytes()));
}

}  // namespace taut::data
