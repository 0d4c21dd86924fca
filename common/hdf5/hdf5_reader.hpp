#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/element_type.hpp"
#include "common/result.hpp"
#include "common/types.hpp"

/// HDF5 files, through libhdf5. The library of the distribution is not safe for several threads, so
/// one lock serialises every call into it; numbers that are stored as one contiguous piece are read
/// and written at their offset in the file instead, without the library.
///
/// A file may come from anywhere. It must be a regular file that starts with HDF5's signature.
/// Links to other files, soft links, data stored in other files and filters that are loaded at run
/// time are not followed. Extents are checked before anything of their size is allocated.
namespace taut::hdf5 {

/// What an HDF5 file starts with.
inline constexpr std::string_view kSignature{"\x89HDF\r\n\x1a\n"};

/// A file beyond these limits is refused.
inline constexpr std::size_t kMaxObjects = 1U << 20U;
inline constexpr int kMaxDepth = 32;
inline constexpr std::size_t kMaxNameBytes = 4096;

/// An array in a file.
struct Dataset {
  std::string name;                     // its path within the file: "data/conv1/0"
  std::vector<std::uint64_t> shape;     // empty: a single number
  std::uint64_t count = 0;              // elements: the product of the shape
  bool is_number = false;               // integers or floating point
  bool is_compressed = false;           // stored through filters
  std::uint64_t element_bytes = 0;      // of one element as stored
  std::uint64_t stored_bytes = 0;       // what the file holds of it
  std::uint64_t chunk_bytes = 0;        // of one chunk once decompressed; 0: not chunked
  std::optional<ElementType> type;      // of little-endian numbers of a common size
  std::optional<std::uint64_t> offset;  // bytes from the file's start, where stored as one piece
};

/// The arrays of a file, group by group in the order of their names.
/// Errors    not_found; invalid: not an HDF5 file, truncated or damaged, limits exceeded, an array
///           whose extents overflow or that reaches beyond the end of the file
/// Thread    any
[[nodiscard]] Result<std::vector<Dataset>> list_datasets(const std::filesystem::path& path);

/// What wrote a file, as recorded by Writer::create(); empty if not recorded, or no HDF5 file.
/// Thread    any
[[nodiscard]] std::string writer_of(const std::filesystem::path& path);

/// Reads a whole array as floats, however it is stored.
/// limit     the most bytes that the floats may take
/// Errors    invalid: not numbers, more than `limit`, extents that the stored bytes cannot fill,
///           damaged
/// Thread    any
[[nodiscard]] Result<std::vector<float>> read_floats(const std::filesystem::path& path,
                                                     const Dataset& dataset, Bytes limit);

}  // namespace taut::hdf5
