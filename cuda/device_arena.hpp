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

/// A device's memory in a few large blocks that are handed out in parts: once the shapes of a net
/// are known, the driver is not called any more. The parts never exceed the budget.
/// Thread    any
class DeviceArena {
 public:
  /// budget  bytes; 0: all of the device's memory
  DeviceArena(int device, std::string device_name, Bytes budget);
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  /// Aligned to 512 bytes.
  /// Errors    DeviceError: names what, and the bytes needed, free and budgeted
  [[nodiscard]] void* allocate(Bytes size, std::string_view what);
  void release(void* address) noexcept;

  [[nodiscard]] Bytes taken() const;
  /// From now on; parts that are handed out stay valid.
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
