#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"

namespace taut::data {

/// The maximum number of elements of an IDX file, one byte each.
inline constexpr Bytes kMaxIdx{4ULL << 30};

/// An array of unsigned bytes, as stored in an IDX file.
struct Idx {
  std::vector<std::uint64_t> extents;  // outermost first
  std::string file;                    // all of it; the elements are its last bytes
  std::uint64_t header_bytes = 0;

  [[nodiscard]] std::span<const std::uint8_t> elements() const {
    return {reinterpret_cast<const std::uint8_t*>(file.data()) + header_bytes,
            file.size() - header_bytes};
  }
};

/// Parses an IDX file's bytes: two zero bytes, the element type, the number of extents, each extent
/// as four big-endian bytes, then the elements and nothing more.
/// name      of the file, for messages
/// extents   how many the array must have
/// Errors    invalid: truncated, a wrong magic number, type or number of extents, an extent of 0,
///           more elements than fit, elements missing or left over; names the file and the value
/// Source    LeCun et al., "The MNIST database", the page that publishes it, "File formats"
[[nodiscard]] Result<Idx> parse_idx(std::string file, const std::string& name, std::size_t extents);

/// As parse_idx(), from a file, plain or gzip, of which no more is read than its extents require.
/// limit     the maximum bytes in memory, unless half of the available memory is less
/// Errors    as parse_idx; not_found; invalid: a damaged gzip stream, more elements than the limit
[[nodiscard]] Result<Idx> read_idx(const std::filesystem::path& path, std::size_t extents,
                                   Bytes limit = kMaxIdx);

/// The extents alone, from the file's head. Errors: as parse_idx, for the head.
[[nodiscard]] Result<std::vector<std::uint64_t>> read_idx_extents(const std::filesystem::path& path,
                                                                  std::size_t extents);

}  // namespace taut::data
