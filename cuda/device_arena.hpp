#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/types.hpp"
#include "cuda/arena_map.hpp"

namespace taut::cuda {

/// A device's memory in few large blocks, of which parts are given out: once the shapes of a net
/// are known, nothing is asked of the driver any more. What is given out never exceeds the budget.
/// Thread    any
class DeviceArena {
 public:
  /// budget  bytes; 0: what the device has
  DeviceArena(int device, std::string device_name, Bytes budget);
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  /// Aligned to 512 bytes.
  /// Errors    DeviceError: names what, and the bytes needed, free and budgeted
  [[nodiscard]] void* allocate(Bytes size, std::string_view what);
  void release(void* address) noexcept;

  [[nodiscard]] Bytes taken() const;
  /// From now on; what is given out already stays.
  void set_budget(Bytes budget);
  [[nodiscard]] Bytes budget() const;

 private:
  struct Block {
    std::byte* base = nullptr;
    ArenaMap map;
  };
  [[nodiscard]] void* take_from_blocks(std::uint64_t size);
  [[noreturn]] void fail_without_room(Bytes size, std::string_view what, bool over_budget) const;

  const int device_;
  const std::string device_name_;
  mutable std::mutex mutex_;  // guards the rest
  Bytes budget_;
  std::uint64_t taken_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace taut::cuda
