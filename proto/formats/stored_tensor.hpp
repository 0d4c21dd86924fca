#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/element_type.hpp"

namespace taut {

/// A tensor of a weights file, and where its numbers are in it.
struct StoredTensor {
  std::string name;  // "conv1/weight"; in a .caffemodel "conv1/0": the layer, and the blob's index
  std::vector<std::uint64_t> shape;
  ElementType type = ElementType::kF32;
  std::uint64_t offset = 0;  // bytes from the file's start

  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t product = 1;
    for (const std::uint64_t extent : shape) product *= extent;
    return product;
  }
  bool operator==(const StoredTensor&) const = default;
};

}  // namespace taut
