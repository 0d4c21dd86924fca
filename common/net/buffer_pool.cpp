#include "common/net/buffer_pool.hpp"

#include <bit>
#include <new>
#include <utility>

namespace taut {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallest = 256;
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

// Four classes to each power of two: at most a quarter of a buffer is wasted.
std::size_t class_size(std::size_t size) {
  if (size <= kSmallest) return kSmallest;
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

/// Stands in the first bytes of a free buffer: to let buffers go takes no memory.
struct BufferPool::Spent {
  Spent* next;
  std::size_t bytes;
};
static_assert(kSmallest >= 2 * sizeof(void*));

struct BufferPool::Shelves {
  Shelves(std::size_t keep_bytes, std::shared_ptr<BufferAllocator> from)
      : allocator(std::move(from)), keep(keep_bytes) {}
  ~Shelves() {
    for (std::size_t i = 0; i < free.size(); ++i) {
      for (void* memory : free[i]) allocator->deallocate(memory, size_of_class(i));
    }
  }
  Shelves(const Shelves&) = delete;
  Shelves& operator=(const Shelves&) = delete;

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
          // No room to remember it: it goes back to the allocator below.
        }
      }
    }
    allocator->deallocate(memory, rounded);
  }

  /// Memory that nobody has used yet; counted as used already. Throws std::bad_alloc.
  void* make(std::size_t rounded) {
    try {
      return allocator->allocate(rounded);
    } catch (...) {
      std::scoped_lock lock(mutex);
      used -= rounded;
      throw;
    }
  }

  /// Keeps less; the largest buffers go first. Whoever gets them gives them back without the lock.
  [[nodiscard]] Spent* keep_less(std::size_t bytes) noexcept {
    std::scoped_lock lock(mutex);
    Spent* first = nullptr;
    keep -= bytes;
    for (std::size_t i = free.size(); i-- > 0;) {
      for (; kept > keep && !free[i].empty(); free[i].pop_back()) {
        first = new (free[i].back()) Spent{first, size_of_class(i)};
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
    : shelves_(std::make_shared<Shelves>(keep.value(), std::move(allocator))) {}

Buffer BufferPool::acquire(std::size_t size) {
  const std::size_t rounded = class_size(size);
  void* memory = nullptr;
  {
    std::scoped_lock lock(shelves_->mutex);
    auto& shelf = shelves_->free[class_index(rounded)];
    if (!shelf.empty()) {
      memory = shelf.back();
      shelf.pop_back();
      shelves_->kept -= rounded;
    }
    shelves_->used += rounded;
  }
  if (memory == nullptr) memory = shelves_->make(rounded);
  return Buffer(std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                           [shelves = shelves_, rounded](std::byte* spent) {
                                             shelves->give_back(spent, rounded);
                                           }),
                size);
}

BufferPool::Surplus::~Surplus() {
  while (first_ != nullptr) {
    Spent* const spent = std::exchange(first_, first_->next);
    shelves_->allocator->deallocate(spent, spent->bytes);
  }
}

BufferPool::Surplus BufferPool::Room::leave() noexcept {
  const auto shelves = std::exchange(shelves_, nullptr);
  return {shelves, shelves ? shelves->keep_less(bytes_) : nullptr};
}

BufferPool::Room BufferPool::keep_more(Bytes bytes) {
  std::scoped_lock lock(shelves_->mutex);
  shelves_->keep += bytes.value();
  return {shelves_, bytes.value()};
}

void BufferPool::stock(std::size_t size, std::size_t count, const std::function<bool()>& over) {
  const std::size_t rounded = class_size(size);
  while (!over()) {
    {
      std::scoped_lock lock(shelves_->mutex);
      if (shelves_->free[class_index(rounded)].size() >= count) return;
      if (shelves_->kept + rounded > shelves_->keep) return;
      shelves_->used += rounded;
    }
    auto* const memory = static_cast<std::byte*>(shelves_->make(rounded));
    for (std::size_t at = 0; at < rounded; at += kPageBytes) memory[at] = std::byte{0};
    memory[rounded - 1] = std::byte{0};
    shelves_->give_back(memory, rounded);
  }
}

std::size_t BufferPool::room_for(std::size_t size) {
  return class_size(size);
}

BufferPool::Usage BufferPool::usage() const {
  std::scoped_lock lock(shelves_->mutex);
  return {Bytes(shelves_->used), Bytes(shelves_->kept)};
}

}  // namespace taut
