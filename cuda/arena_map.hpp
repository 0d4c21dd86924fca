#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace taut::cuda {

/// Which parts of one range of addresses are in use: best fit; neighbouring free parts are merged.
/// It handles offsets only, so a test needs no device's memory.
class ArenaMap {
 public:
  explicit ArenaMap(std::uint64_t size, std::uint64_t alignment);

  /// The offset of a free part of `size` bytes, a multiple of the alignment; std::nullopt if none
  /// is large enough. REQUIRES: size > 0
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size);
  /// REQUIRES: take() returned it, and it has not been freed since.
  void give_back(std::uint64_t offset);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_bytes_; }
  [[nodiscard]] std::uint64_t largest_free() const;
  [[nodiscard]] bool empty() const { return taken_.empty(); }

 private:
  void insert_free(std::uint64_t offset, std::uint64_t size);
  void erase_free(std::uint64_t offset, std::uint64_t size);

  std::uint64_t size_;
  std::uint64_t alignment_;
  std::uint64_t taken_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> free_;                     // offset to size
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_by_size_;  // (size, offset)
  std::map<std::uint64_t, std::uint64_t> taken_;                    // offset to size
};

}  // namespace taut::cuda
