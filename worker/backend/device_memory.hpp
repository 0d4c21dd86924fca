#pragma once

#include <cstddef>
#include <span>
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

/// Owns one block of memory and gives it back to where it came from, which outlives it.
class OwnedMemory {
 public:
  /// owner  what was given with it: the arena or the device that the block came from
  using Release = void (*)(void* owner, void* address) noexcept;

  OwnedMemory() = default;
  OwnedMemory(void* address, Bytes size, Release release, void* owner = nullptr)
      : address_(address), size_(size), release_(release), owner_(owner) {}
  OwnedMemory(OwnedMemory&& other) noexcept { swap(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    OwnedMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~OwnedMemory() {
    if (address_ != nullptr) release_(owner_, address_);
  }

  [[nodiscard]] Bytes size() const { return size_; }

 protected:
  [[nodiscard]] void* address() const { return address_; }

 private:
  void swap(OwnedMemory& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    std::swap(release_, other.release_);
    std::swap(owner_, other.owner_);
  }

  void* address_ = nullptr;
  Bytes size_{0};
  Release release_ = nullptr;
  void* owner_ = nullptr;
};

/// A block of a device's memory.
class DeviceBuffer : public OwnedMemory {
 public:
  using OwnedMemory::OwnedMemory;

  /// The whole block, as elements of type T.
  template <class T>
  [[nodiscard]] DeviceSpan<T> as() const {
    return DeviceSpan<T>(static_cast<T*>(address()), size().value() / sizeof(T));
  }
};

/// A block of the host's memory that a device copies from and to by itself, at its full speed,
/// while the host goes on.
class HostBuffer : public OwnedMemory {
 public:
  using OwnedMemory::OwnedMemory;

  /// The whole block, as elements of type T.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    return {static_cast<T*>(address()), size().value() / sizeof(T)};
  }
};

}  // namespace taut
