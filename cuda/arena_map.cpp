#include "cuda/arena_map.hpp"

#include <iterator>

#include "common/check.hpp"

namespace taut::cuda {

ArenaMap::ArenaMap(std::uint64_t size, std::uint64_t alignment)
    : size_(size), alignment_(alignment) {
  TAUT_CHECK(size > 0 && alignment > 0 && size % alignment == 0, "an arena of whole units");
  insert_free(0, size);
}

std::optional<std::uint64_t> ArenaMap::take(std::uint64_t size) {
  TAUT_CHECK(size > 0, "a part of no bytes");
  if (size > size_) return std::nullopt;
  const std::uint64_t whole = (size + alignment_ - 1) / alignment_ * alignment_;
  const auto best = free_by_size_.lower_bound({whole, 0});
  if (best == free_by_size_.end()) return std::nullopt;
  const auto [length, offset] = *best;
  erase_free(offset, length);
  if (length > whole) insert_free(offset + whole, length - whole);
  taken_.emplace(offset, whole);
  taken_bytes_ += whole;
  return offset;
}

void ArenaMap::give_back(std::uint64_t offset) {
  const auto part = taken_.find(offset);
  TAUT_CHECK(part != taken_.end(), "a freed part was not taken");
  std::uint64_t begin = offset;
  std::uint64_t length = part->second;
  taken_bytes_ -= length;
  taken_.erase(part);
  const auto after = free_.lower_bound(begin);
  if (after != free_.end() && after->first == begin + length) {
    length += after->second;
    erase_free(after->first, after->second);
  }
  const auto next = free_.lower_bound(begin);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      length += before->second;
      erase_free(before->first, before->second);
    }
  }
  insert_free(begin, length);
}

std::uint64_t ArenaMap::largest_free() const {
  return free_by_size_.empty() ? 0 : free_by_size_.rbegin()->first;
}

void ArenaMap::insert_free(std::uint64_t offset, std::uint64_t size) {
  free_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
}

void ArenaMap::erase_free(std::uint64_t offset, std::uint64_t size) {
  free_by_size_.erase({size, offset});
  free_.erase(offset);
}

}  // namespace taut::cuda
