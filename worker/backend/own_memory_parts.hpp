#pragma once

#include <cstddef>
#include <initializer_list>

#include "worker/backend/device_op.hpp"

// How the parts of an operation's own memory lie in one block, the same for every device. A part has
// room(), floats to where another one may begin, and lend().
namespace taut {

/// What parts take that lie one behind the other.
template <class Part>
[[nodiscard]] Bytes bytes_of(std::initializer_list<const Part*> parts) {
  std::size_t sum = 0;
  for (const Part* part : parts) sum += part->room();
  return Bytes(sum * sizeof(float));
}

/// Lends them so. REQUIRES: the block has room for all.
template <class Part>
void lend_in_turn(DeviceSpan<float> block, std::initializer_list<Part*> parts) {
  std::size_t begin = 0;
  for (Part* part : parts) {
    part->lend(block.subspan(begin, part->room()).address());
    begin += part->room();
  }
}

}  // namespace taut
