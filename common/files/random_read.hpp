#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/result.hpp"

namespace taut {

/// Bytes that can be read at any offset, wherever they are stored.
/// Thread    several at once are allowed
class RandomRead {
 public:
  virtual ~RandomRead() = default;
  /// Bytes [offset, offset + out.size()).
  /// Errors    invalid beyond the end; io and other errors of the storage
  [[nodiscard]] virtual Result<void> read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

}  // namespace taut
