#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "common/check.hpp"
#include "common/types.hpp"

namespace taut {

/// A view of `size` elements in a device's memory. The host cannot index it: only a backend, or a
/// host view that is asked for by name, reaches what it shows. Outlives nothing: the owner does.
template <class T>
class DeviceSpan {
 public:
  constexpr DeviceSpan() = default;
  constexpr DeviceSpan(T* address, std::size_t size) : address_(address), size_(size) {}
  /// What may be written may be read.
  template <class U>
  requires(std::is_same_v<const U, T> &&
           !std::is_same_v<U, T>) constexpr DeviceSpan(DeviceSpan<U> other)
      : address_(other.address()), size_(other.size()) {}

  /// An address on the device, for backends to hand to their kernels.
  [[nodiscard]] constexpr T* address() const { return address_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr Bytes size_bytes() const { return Bytes(size_ * sizeof(T)); }

  [[nodiscard]] DeviceSpan subspan(std::size_t offset, std::size_t count) const {
    TAUT_CHECK(offset <= size_ && count <= size_ - offset, "a part lies outside of its whole");
    return DeviceSpan(address_ + offset, count);
  }

 private:
  T* address_ = nullptr;
  std::size_t size_ = 0;
};

/// Owns one block of a device's memory and gives it back to where it came from.
class DeviceBuffer {
 public:
  using Release = void (*)(void* address) noexcept;

  DeviceBuffer() = default;
  DeviceBuffer(void* address, Bytes size, Release release)
      : address_(address), size_(size), release_(release) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer() {
    if (address_ != nullptr) release_(address_);
  }

  [[nodiscard]] Bytes size() const { return size_; }
  /// The whole block, as elements of type T.
  template <class T>
  [[nodiscard]] DeviceSpan<T> as() const {
    return DeviceSpan<T>(static_cast<T*>(address_), size_.value() / sizeof(T));
  }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    std::swap(release_, other.release_);
  }

  void* address_ = nullptr;
  Bytes size_{0};
  Release release_ = nullptr;
};

}  // namespace taut
