#include "common/net/buffer_pool.hpp"

#include <cstdint>

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

TEST_CASE("what is freed beyond the limit goes back to the allocator", "[pool]") {
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
