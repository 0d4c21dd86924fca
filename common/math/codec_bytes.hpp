#pragma once

#include <cstddef>
#include <cstring>

namespace taut::math {

/// The i-th T of an array at any alignment.
template <class T>
T load(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof value);
  return value;
}

template <class T>
void store(std::byte* bytes, std::size_t i, T value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof value);
}

}  // namespace taut::math
