#include "common/net/buffer_pool.hpp"

#include <bit>
#include <new>
#include <utility>

namespace taut {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMinSize = 256;
constexpr std::size_t kPageBytes = 4096;  // or a part of the system's: then some are touched twice

class HostAllocator final : public BufferAllocator {
 public:
  void* allocate(std::size_t size) override {
    return ::operator new (size, std::align_val_t{kAlignment});
  }
  void deallocate(void* memory, std::size_t /*size*/) noexcept override {
    ::operator delete (memory, std::align_val_t{kAlignment});
  }
};

// Four classes per power of two: above kMinSize, at most a quarter of a buffer is wasted.
std::size_t class_size(std::size_t size) {
  if (size <= kMinSize) return kMinSize;
  const std::size_t step = std::bit_floor(size - 1) / 4;
  return (size + step - 1) / step * step;
}

std::size_t class_index(std::size_t rounded) {
  const auto power = static_cast<std::size_t>(std::bit_width(rounded) - 1);
  const std::size_t quarter = (rounded >> (power - 2)) & 3U;
  return power * 4 + quarter;
}

/// The inverse of class_index.
std::size_t size_of_class(std::size_t index) {
  return (4 + index % 4) << (index / 4 - 2);
}

}  // namespace

std::shared_ptr<BufferAllocator> host_allocator() {
  static const auto allocator = std::make_shared<HostAllocator>();
  return allocator;
}

/// Stored in the first bytes of a free buffer: a list of buffers to be freed takes no memory.
struct BufferPool::FreeBuffer {
  FreeBuffer* next;
  std::size_t bytes;
};
static_assert(kMinSize >= 2 * sizeof(void*));

struct BufferPool::FreeLists {
  FreeLists(std::size_t keep_bytes, std::shared_ptr<BufferAllocator> from)
      : allocator(std::move(from)), keep(keep_bytes) {}
  ~FreeLists() {
    for (std::size_t i = 0; i < free.size(); ++i) {
      for (void* memory : free[i]) allocator->deallocate(memory, size_of_class(i));
    }
  }
  FreeLists(const FreeLists&) = delete;
  FreeLists& operator=(const FreeLists&) = delete;

  void give_back(void* memory, std::size_t rounded) noexcept {
    {
      std::scoped_lock lock(mutex);
      used -= rounded;
      if (kept + rounded <= keep) {
        try {
          free[class_index(rounded)].push_back(memory);
          kept += rounded;
          return;
        } catch (const std::bad_alloc&) {
          // No memory to list it: it is returned to the allocator below.
        }
      }
    }
    allocator->deallocate(memory, rounded);
  }

  /// Fresh memory, which the caller has counted as used. Throws std::bad_alloc.
  void* allocate(std::size_t rounded) {
    try {
      return allocator->allocate(rounded);
    } catch (...) {
      std::scoped_lock lock(mutex);
      used -= rounded;
      throw;
    }
  }

  /// Lowers the limit; the largest buffers are removed first. The caller frees those returned,
  /// without the lock.
  [[nodiscard]] FreeBuffer* keep_less(std::size_t bytes) noexcept {
    std::scoped_lock lock(mutex);
    FreeBuffer* first = nullptr;
    keep -= bytes;
    for (std::size_t i = free.size(); i-- > 0;) {
      for (; kept > keep && !free[i].empty(); free[i].pop_back()) {
        first = new (free[i].back()) FreeBuffer{first, size_of_class(i)};
        kept -= first->bytes;
      }
    }
    return first;
  }

  const std::shared_ptr<BufferAllocator> allocator;
  std::mutex mutex;  // guards the rest
  std::size_t keep;
  std::array<std::vector<void*>, 4 * 64> free;
  std::size_t used = 0;
  std::size_t kept = 0;
};

BufferPool::BufferPool(Bytes keep, std::shared_ptr<BufferAllocator> allocator)
    : lists_(std::make_shared<FreeLists>(keep.value(), std::move(allocator))) {}

Buffer BufferPool::acquire(std::size_t size) {
  const std::size_t rounded = class_size(size);
  void* memory = nullptr;
  {
    std::scoped_lock lock(lists_->mutex);
    auto& list = lists_->free[class_index(rounded)];
    if (!list.empty()) {
      memory = list.back();
      list.pop_back();
      lists_->kept -= rounded;
    }
    lists_->used += rounded;
  }
  if (memory == nullptr) memory = lists_->allocate(rounded);
  return Buffer(std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                           [lists = lists_, rounded](std::byte* spent) {
                                             lists->give_back(spent, rounded);
                                           }),
                size);
}

BufferPool::Excess::~Excess() {
  while (first_ != nullptr) {
    FreeBuffer* const spent = std::exchange(first_, first_->next);
    lists_->allocator->deallocate(spent, spent->bytes);
  }
}

BufferPool::Excess BufferPool::Reservation::end() noexcept {
  const auto lists = std::exchange(lists_, nullptr);
  return {lists, lists ? lists->keep_less(bytes_) : nullptr};
}

BufferPool::Reservation BufferPool::keep_more(Bytes bytes) {
  std::scoped_lock lock(lists_->mutex);
  lists_->keep += bytes.value();
  return {lists_, bytes.value()};
}

void BufferPool::preallocate(std::size_t size, std::size_t count,
                             const std::function<bool()>& over) {
  const std::size_t rounded = class_size(size);
  while (!over()) {
    {
      std::scoped_lock lock(lists_->mutex);
      if (lists_->free[class_index(rounded)].size() >= count) return;
      if (lists_->kept + rounded > lists_->keep) return;
      lists_->used += rounded;
    }
    auto* const memory = static_cast<std::byte*>(lists_->allocate(rounded));
    for (std::size_t at = 0; at < rounded; at += kPageBytes) memory[at] = std::byte{0};
    memory[rounded - 1] = std::byte{0};
    lists_->give_back(memory, rounded);
  }
}

std::size_t BufferPool::rounded_size(std::size_t size) {
  return class_size(size);
}

BufferPool::Usage BufferPool::usage() const {
  std::scoped_lock lock(lists_->mutex);
  return {Bytes(lists_->used), Bytes(lists_->kept)};
}

}  // namespace taut
