#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/net/buffer_pool.hpp"

namespace taut {

/// Immutable bytes with the owner that keeps them alive. Copies share the bytes.
class Frame {
 public:
  Frame() = default;
  Frame(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  explicit Frame(const Buffer& buffer) : owner_(buffer.owner()), bytes_(buffer.bytes()) {}

  /// An independent frame with a copy of the bytes.
  [[nodiscard]] static Frame copy_of(std::span<const std::byte> bytes) {
    auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    const std::span<const std::byte> view(*owned);
    return {std::move(owned), view};
  }
  [[nodiscard]] static Frame copy_of(std::string_view text) {
    return copy_of(std::as_bytes(std::span(text)));
  }

  /// A part of the frame; it keeps the whole alive.
  [[nodiscard]] Frame part(std::size_t offset, std::size_t size) const {
    return {owner_, bytes_.subspan(offset, size)};
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] const std::shared_ptr<const void>& owner() const { return owner_; }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

/// The frames of one message: delivered complete or not at all.
struct Message {
  std::vector<Frame> frames;
};

}  // namespace taut
