#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace taut::fuzz {

/// A fuzzer's bytes as decisions, one after the other; after the last byte all of them are 0.
class Script {
 public:
  explicit Script(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool is_over() const { return bytes_.empty(); }
  [[nodiscard]] std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t next = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return next;
  }
  /// Below `count`.
  [[nodiscard]] std::uint32_t pick(std::uint32_t count) { return byte() % count; }
  /// Mostly small, at times of any size.
  [[nodiscard]] std::uint64_t number() {
    const std::uint8_t first = byte();
    if (first < 0xf0) return first & 0x0fU;
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8U | byte();
    return value;
  }
  [[nodiscard]] std::span<const std::uint8_t> bytes(std::size_t count) {
    const auto taken = bytes_.first(count < bytes_.size() ? count : bytes_.size());
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace taut::fuzz
