#include "common/net/buffer_pool.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut;

TEST_CASE("a buffer given back is used again", "[pool]") {
  BufferPool pool;
  const std::byte* first = nullptr;
  {
    const Buffer buffer = pool.acquire(100'000);
    first = buffer.data();
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    CHECK(pool.usage().used.value() >= 100'000);
  }
  CHECK(pool.usage().used.value() == 0);
  CHECK(pool.acquire(99'000).data() == first);
}

TEST_CASE("a buffer stays while any copy of it does", "[pool]") {
  BufferPool pool;
  Buffer one = pool.acquire(1000);
  CHECK(one.unshared());
  Buffer two = one;
  CHECK_FALSE(one.unshared());
  one = Buffer();
  CHECK(two.unshared());
  CHECK(pool.usage().used.value() >= 1000);
}

TEST_CASE("a buffer may outlive its pool", "[pool]") {
  Buffer buffer;
  {
    BufferPool pool;
    buffer = pool.acquire(5000);
  }
  buffer.data()[4999] = std::byte{1};
  CHECK(buffer.size() == 5000);
}

TEST_CASE("buffers freed beyond the limit are returned to the allocator", "[pool]") {
  BufferPool pool(Bytes(4096));
  { const Buffer large = pool.acquire(1 << 20); }
  CHECK(pool.usage().kept.value() == 0);
  { const Buffer small = pool.acquire(4096); }
  CHECK(pool.usage().kept.value() == 4096);
}

TEST_CASE("size classes waste at most a quarter", "[pool]") {
  BufferPool pool;
  for (const std::size_t size : {257UL, 1025UL, 1281UL, 65537UL, 1000000UL, (1UL << 20U) + 1}) {
    const Buffer buffer = pool.acquire(size);
    const std::uint64_t used = pool.usage().used.value();
    CHECK(used >= size);
    CHECK(used <= size + size / 4 + 1);
  }
}

TEST_CASE("stocked buffers are acquired next, and no more are allocated than are kept", "[pool]") {
  const auto never = [] { return false; };
  BufferPool pool(Bytes(4096));
  pool.preallocate(1 << 20, 3, never);
  CHECK(pool.usage().kept.value() == 0);
  const auto reservation = pool.keep_more(Bytes(3 * BufferPool::rounded_size(1 << 20)));
  pool.preallocate(1 << 20, 5, never);
  CHECK(pool.usage().kept.value() == 3U << 20U);
  CHECK(pool.usage().used.value() == 0);
  // Free buffers count.
  pool.preallocate(1 << 20, 2, never);
  CHECK(pool.usage().kept.value() == 3U << 20U);
  const Buffer taken = pool.acquire(1 << 20);
  CHECK(pool.usage().kept.value() == 2U << 20U);
  CHECK(pool.usage().used.value() == 1U << 20U);
}

TEST_CASE("stocking ends as soon as it is cancelled", "[pool]") {
  BufferPool pool;
  int calls = 0;
  pool.preallocate(100'000, 10, [&] { return ++calls > 4; });
  CHECK(calls == 5);
  CHECK(pool.usage().kept.value() == 4 * BufferPool::rounded_size(100'000));
}

TEST_CASE("buffers kept for a while are returned when the reservation ends", "[pool]") {
  BufferPool pool(Bytes(4096));
  auto reservation = pool.keep_more(Bytes(1 << 20));
  { const Buffer large = pool.acquire(1 << 20); }
  CHECK(pool.usage().kept.value() == 1U << 20U);
  (void)reservation.end();
  CHECK(pool.usage().kept.value() == 0);
  { const Buffer small = pool.acquire(4096); }
  CHECK(pool.usage().kept.value() == 4096);
}

namespace {

/// Looks on another thread whether its pool can be used while it frees.
class AskingAllocator final : public BufferAllocator {
 public:
  void* allocate(std::size_t size) override { return host_allocator()->allocate(size); }
  void deallocate(void* memory, std::size_t size) noexcept override {
    if (pool != nullptr) {
      ++freed;
      calls.push_back(std::async(std::launch::async, [this] { (void)pool->usage(); }));
      if (calls.back().wait_for(std::chrono::seconds(5)) != std::future_status::ready) ++blocked;
    }
    host_allocator()->deallocate(memory, size);
  }

  BufferPool* pool = nullptr;
  int freed = 0;
  int blocked = 0;
  std::vector<std::future<void>> calls;  // one that waits is not waited for in turn
};

}  // namespace

TEST_CASE("buffers that are no longer kept are freed by their receiver, while the pool is used",
          "[pool]") {
  const auto allocator = std::make_shared<AskingAllocator>();
  BufferPool pool(Bytes(4096), allocator);
  auto reservation = pool.keep_more(Bytes(3 << 20));
  pool.preallocate(1 << 20, 3, [] { return false; });
  { const Buffer small = pool.acquire(256); }
  allocator->pool = &pool;
  {
    const BufferPool::Excess excess = reservation.end();
    CHECK(pool.usage().kept.value() == 256);
    CHECK(allocator->freed == 0);
  }
  CHECK(allocator->freed == 3);
  CHECK(allocator->blocked == 0);
  // It has ended: nothing is kept less twice.
  (void)reservation.end();
  CHECK(pool.usage().kept.value() == 256);
  allocator->pool = nullptr;
}
