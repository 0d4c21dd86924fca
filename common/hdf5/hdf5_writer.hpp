#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::hdf5 {

/// An array to be written: little-endian float32, stored as one piece.
struct ArraySpec {
  std::string name;  // its path within the file; its groups are created
  std::vector<std::int64_t> shape;
};

/// Writes an HDF5 file that appears whole or not at all.
/// Thread    one at a time
class Writer {
 public:
  /// writer    recorded as what wrote the file (writer_of()), at most 64 bytes; empty: no record
  /// Errors    invalid: a name that HDF5 does not allow, or a repeated one; io
  [[nodiscard]] static Result<Writer> create(const std::filesystem::path& path,
                                             const std::vector<ArraySpec>& arrays,
                                             const std::string& writer = {});
  ~Writer();
  Writer(Writer&& other) noexcept;
  Writer& operator=(Writer&&) = delete;

  /// Writes elements [first, first + values.size()) of an array; elements that are never written
  /// are 0. REQUIRES: they are within the array. Errors: io.
  [[nodiscard]] Result<void> write(std::size_t array, std::uint64_t first,
                                   std::span<const float> values);

  /// Puts the file in place, replacing any of that name; no write may follow. Errors: io.
  [[nodiscard]] Result<void> finish();
  /// As finish(), under another name in the same folder. Errors: io.
  [[nodiscard]] Result<void> finish_as(const std::filesystem::path& path);
  /// As finish_as(), but no file is replaced.
  /// Errors    exists: a file has that name; this one can still be put elsewhere. io.
  [[nodiscard]] Result<void> finish_as_new(const std::filesystem::path& path);

 private:
  Writer(std::filesystem::path path, std::filesystem::path part);
  [[nodiscard]] Error failed(const char* step) const;
  [[nodiscard]] Result<void> close_file();

  std::filesystem::path path_;
  std::filesystem::path part_;  // the file until finish(); empty: nothing to remove
  int file_ = -1;
  std::vector<std::uint64_t> offsets_;  // of each array in the file
};

/// Removes the drafts of a file, NAME.partPID, whose processes ended while they were writing it.
void remove_abandoned_drafts(const std::filesystem::path& path);

}  // namespace taut::hdf5
