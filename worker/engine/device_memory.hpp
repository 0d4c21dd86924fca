#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "common/check.hpp"
#include "common/types.hpp"

namespace taut {

/// What a block of device memory holds, for plans and reports.
enum class BufferKind : std::uint8_t { kParameter, kGradient, kActivation, kWorkspace };
inline constexpr std::size_t kBufferKinds = 4;

/// A view of `size` elements in a device's memory. The host cannot index it: only a backend, or an
/// explicit host view, accesses the elements. The owner outlives it.
template <class T>
class DeviceSpan {
 public:
  constexpr DeviceSpan() = default;
  constexpr DeviceSpan(T* address, std::size_t size) : address_(address), size_(size) {}
  /// A writable span is readable.
  template <class U>
  requires(std::is_same_v<const U, T> &&
           !std::is_same_v<U, T>) constexpr DeviceSpan(DeviceSpan<U> other)
      : address_(other.address()), size_(other.size()) {}

  /// An address on the device, for a backend's kernels.
  [[nodiscard]] constexpr T* address() const { return address_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr Bytes size_bytes() const { return Bytes(size_ * sizeof(T)); }

  [[nodiscard]] DeviceSpan subspan(std::size_t offset, std::size_t count) const {
    TAUT_CHECK(offset <= size_ && count <= size_ - offset, "a part is outside its whole");
    return DeviceSpan(address_ + offset, count);
  }

 private:
  T* address_ = nullptr;
  std::size_t size_ = 0;
};

/// Owns one block of memory and returns it to its source, which outlives it.
class OwnedMemory {
 public:
  /// owner  as passed to the constructor: the arena or the device that the block came from
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

/// A block of host memory that a device copies from and to at its full speed, without the host.
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
