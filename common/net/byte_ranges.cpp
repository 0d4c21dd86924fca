#include "common/net/byte_ranges.hpp"

#include <algorithm>
#include <iterator>

namespace taut {

void ByteRanges::add(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto next = end_of_.upper_bound(begin);
  if (next != end_of_.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != end_of_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = end_of_.erase(next);
  }
  if (end_of_.size() >= kMaxRanges) end_of_.clear();
  end_of_[begin] = end;
}

bool ByteRanges::contains(std::uint64_t begin, std::uint64_t end) const {
  if (begin >= end) return true;
  const auto next = end_of_.upper_bound(begin);
  return next != end_of_.begin() && std::prev(next)->second >= end;
}

}  // namespace taut
