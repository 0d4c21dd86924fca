#include "lab/training/page_allocator.hpp"

#include <sys/mman.h>

#include <new>

namespace taut::lab {
namespace {

constexpr std::size_t kMinPages = 32UL << 10U;  // bytes; smaller ones would waste much of a page

class PageAllocator final : public BufferAllocator {
 public:
  void* allocate(std::size_t size) override {
    if (size < kMinPages) return host_allocator()->allocate(size);
    void* const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }
  void deallocate(void* memory, std::size_t size) noexcept override {
    if (size < kMinPages) return host_allocator()->deallocate(memory, size);
    (void)munmap(memory, size);
  }
};

}  // namespace

std::shared_ptr<BufferAllocator> page_allocator() {
  static const auto allocator = std::make_shared<PageAllocator>();
  return allocator;
}

}  // namespace taut::lab
