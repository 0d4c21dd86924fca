#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "common/types.hpp"

namespace taut {

/// The source of pooled memory: an argument, so that a CUDA worker can supply pinned memory.
class BufferAllocator {
 public:
  virtual ~BufferAllocator() = default;
  /// Memory aligned to 64 bytes. Throws std::bad_alloc.
  [[nodiscard]] virtual void* allocate(std::size_t size) = 0;
  virtual void deallocate(void* memory, std::size_t size) noexcept = 0;
};

/// Plain host memory; one for the process.
[[nodiscard]] std::shared_ptr<BufferAllocator> host_allocator();

/// Writable memory from a pool; it is returned when the last owner releases it. Copies share it.
class Buffer {
 public:
  Buffer() = default;

  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_.get(), size_}; }
  [[nodiscard]] std::span<float> floats() const {
    return {reinterpret_cast<float*>(data_.get()), size_ / sizeof(float)};
  }
  /// Whether no other buffer shares the memory, so that it may be written.
  [[nodiscard]] bool unshared() const {
    const bool alone = data_.use_count() == 1;
    // The last other owner's accesses to the memory happen before ours.
    std::atomic_thread_fence(std::memory_order_acquire);
    return alone;
  }
  [[nodiscard]] const std::shared_ptr<std::byte>& owner() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class BufferPool;
  Buffer(std::shared_ptr<std::byte> data, std::size_t size) : data_(std::move(data)), size_(size) {}

  std::shared_ptr<std::byte> data_;
  std::size_t size_ = 0;
};

/// Keeps freed buffers by size class, because a new allocation for each message costs more than
/// copying it. Buffers may outlive the pool object. Thread: any.
class BufferPool {
  struct FreeLists;
  struct FreeBuffer;

 public:
  class Reservation;

  /// Free buffers that a pool no longer keeps. They are returned to the allocator when this object
  /// is destroyed, without the pool's lock: freeing large ones takes the system a while.
  /// Thread    any; the destroying thread returns them
  class Excess {
   public:
    Excess(Excess&& other) noexcept
        : lists_(std::move(other.lists_)), first_(std::exchange(other.first_, nullptr)) {}
    Excess(const Excess&) = delete;
    Excess& operator=(const Excess&) = delete;
    ~Excess();

   private:
    friend class Reservation;
    Excess(std::shared_ptr<FreeLists> lists, FreeBuffer* first)
        : lists_(std::move(lists)), first_(first) {}
    std::shared_ptr<FreeLists> lists_;
    FreeBuffer* first_;
  };

  /// Free buffers that a pool may keep beyond its own limit, for as long as this object exists.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept = default;
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() { (void)end(); }

    /// Returns the buffers above the new limit of the pool.
    [[nodiscard]] Excess end() noexcept;

   private:
    friend class BufferPool;
    Reservation(std::shared_ptr<FreeLists> lists, std::size_t bytes)
        : lists_(std::move(lists)), bytes_(bytes) {}
    std::shared_ptr<FreeLists> lists_;  // nullptr once ended
    std::size_t bytes_;
  };

  /// Keeps at most `keep` bytes of free buffers; the rest is returned to the allocator.
  explicit BufferPool(Bytes keep = Bytes(1ULL << 30),
                      std::shared_ptr<BufferAllocator> allocator = host_allocator());

  /// A buffer of `size` bytes with unspecified contents. Throws std::bad_alloc.
  [[nodiscard]] Buffer acquire(std::size_t size);

  /// Raises the limit on free buffers by `bytes` for as long as the result exists.
  [[nodiscard]] Reservation keep_more(Bytes bytes);

  /// Allocates free buffers of `size` bytes until there are `count` of them or the limit is
  /// reached, and touches their pages: acquiring one then doesn't wait for the system.
  /// over  called before each buffer; returning true ends the call early
  /// Throws std::bad_alloc.
  void preallocate(std::size_t size, std::size_t count, const std::function<bool()>& over);

  /// How much of the limit a buffer of `size` bytes uses: its size class.
  [[nodiscard]] static std::size_t rounded_size(std::size_t size);

  /// Bytes in use and bytes kept free, in whole size classes.
  struct Usage {
    Bytes used;
    Bytes kept;
  };
  [[nodiscard]] Usage usage() const;

 private:
  std::shared_ptr<FreeLists> lists_;
};

}  // namespace taut
