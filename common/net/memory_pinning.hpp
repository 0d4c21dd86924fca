#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace taut {

/// Pins memory that another process owns and this one has mapped, so that a device copies from it
/// without the host.
/// Thread    any
class MemoryPinning {
 public:
  /// Parts begin and end at multiples of this address, or with the mapping. A driver refuses a copy
  /// across the border of two parts. Pinning commits the memory of a whole part, used or not.
  static constexpr std::size_t kPart = 8UL << 20U;

  MemoryPinning() = default;
  MemoryPinning(const MemoryPinning&) = delete;
  MemoryPinning& operator=(const MemoryPinning&) = delete;
  virtual ~MemoryPinning() = default;

  /// Must be called before any memory is pinned: a device will copy from it.
  void enable() { is_enabled_ = true; }
  [[nodiscard]] bool is_enabled() const { return is_enabled_; }

  /// Returns false if the part cannot be pinned. REQUIRES: it is not pinned yet.
  [[nodiscard]] virtual bool pin(std::span<const std::byte> part) = 0;
  /// Waits for copies from the part.
  virtual void unpin(std::span<const std::byte> part) noexcept = 0;

  /// Whether all of these bytes, of one mapping, are pinned.
  [[nodiscard]] virtual bool covers(std::span<const std::byte> bytes) const = 0;

 private:
  std::atomic<bool> is_enabled_ = false;
};

}  // namespace taut
