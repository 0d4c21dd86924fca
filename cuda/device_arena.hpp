#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/types.hpp"
#include "cuda/arena_map.hpp"

namespace taut::cuda {

/// A device's memory in a few large blocks that are handed out in parts: once the shapes of a net
/// are known, the driver is no longer called.
/// Thread    any
class DeviceArena {
 public:
  /// kShared    allocations share blocks
  /// kSeparate  each has its own block between two red zones, which are checked when it is
  ///            released, so that a tool or the check sees an overrun; slow
  enum class Blocks : std::uint8_t { kShared, kSeparate };
  /// TAUTLINE_DEVICE_MEMORY: "shared", which is the default, or "separate".
  [[nodiscard]] static Blocks blocks_of_environment();

  DeviceArena(int device, std::string device_name, Blocks blocks = blocks_of_environment());
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  /// Aligned to 512 bytes.
  /// Errors    DeviceError: names what, and the bytes needed and free
  [[nodiscard]] void* allocate(Bytes size, std::string_view what);
  void release(void* address) noexcept;

  [[nodiscard]] Bytes taken() const;

 private:
  struct Block {
    std::byte* base = nullptr;
    ArenaMap map;
  };
  [[nodiscard]] void* take_from_blocks(std::uint64_t size);
  [[nodiscard]] void* allocate_separately(Bytes size, std::string_view what);
  void release_separate(std::byte* place) noexcept;
  [[noreturn]] void fail_without_room(Bytes size, std::string_view what) const;

  const int device_;
  const std::string device_name_;
  mutable std::mutex mutex_;  // guards the rest
  std::uint64_t taken_ = 0;
  std::vector<Block> blocks_;
  /// A separate allocation, by the address that was given out.
  struct Separate {
    std::uint64_t size = 0;
    std::string what;
  };
  const Blocks kind_;
  std::map<std::byte*, Separate> separate_;
};

}  // namespace taut::cuda
