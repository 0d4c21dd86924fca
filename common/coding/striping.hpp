#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace taut {

/// How a file's bytes are distributed over `data` parts: each stripe has one block for each part in
/// turn. The last stripe's blocks are as short as its bytes allow, and the rest of it is filled
/// with zeros. Parity parts have a block of the same length in each stripe.
struct Striping {
  std::uint64_t data = 1;
  std::uint64_t block_bytes = 1;
  std::uint64_t file_bytes = 0;

  [[nodiscard]] std::uint64_t stripe_bytes() const { return data * block_bytes; }
  [[nodiscard]] std::uint64_t stripes() const {
    return (file_bytes + stripe_bytes() - 1) / stripe_bytes();
  }
  /// The length of a stripe's blocks.
  [[nodiscard]] std::uint64_t block_bytes_of(std::uint64_t stripe) const {
    const std::uint64_t left = file_bytes - stripe * stripe_bytes();
    return left >= stripe_bytes() ? block_bytes : (left + data - 1) / data;
  }
  /// The length of each part.
  [[nodiscard]] std::uint64_t part_bytes() const {
    if (file_bytes == 0) return 0;
    return (stripes() - 1) * block_bytes + block_bytes_of(stripes() - 1);
  }

  struct Place {
    std::size_t part = 0;
    std::uint64_t offset = 0;  // within the part
    std::uint64_t count = 0;   // bytes from there on that are contiguous in part and file
  };
  /// Where a byte of the file is. REQUIRES: offset < file_bytes.
  [[nodiscard]] Place place_of(std::uint64_t offset) const {
    const std::uint64_t stripe = offset / stripe_bytes();
    const std::uint64_t block = block_bytes_of(stripe);
    const std::uint64_t within = offset - stripe * stripe_bytes();
    const std::uint64_t first = within % block;
    return {static_cast<std::size_t>(within / block), stripe * block_bytes + first,
            std::min(block - first, file_bytes - offset)};
  }
};

}  // namespace taut
