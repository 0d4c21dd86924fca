#pragma once

#include <cstddef>
#include <initializer_list>

#include "worker/engine/ops/device_op.hpp"

// The layout of the parts of an operation's own memory in one block, the same for every device. A
// part has room(), its floats including alignment, and lend().
namespace taut {

/// The size of a block with all parts in sequence.
template <class Part>
[[nodiscard]] Bytes bytes_of(std::initializer_list<const Part*> parts) {
  std::size_t sum = 0;
  for (const Part* part : parts) sum += part->room();
  return Bytes(sum * sizeof(float));
}

/// Lends a block's memory to the parts in sequence. REQUIRES: it has room for all.
template <class Part>
void lend_in_turn(DeviceSpan<float> block, std::initializer_list<Part*> parts) {
  std::size_t begin = 0;
  for (Part* part : parts) {
    part->lend(block.subspan(begin, part->room()).address());
    begin += part->room();
  }
}

}  // namespace taut
