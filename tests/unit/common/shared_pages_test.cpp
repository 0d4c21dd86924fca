#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <span>

#include "common/net/byte_ranges.hpp"
#include "common/net/shared_link.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

constexpr std::size_t kMib = 1UL << 20U;

/// A member's arena, and a shard that borrows from it.
struct Lending {
  Lending() {
    REQUIRE(lender.open(borrower.offer()).has_value());
    REQUIRE(borrower.open(lender.offer(), ArenaPages::kStay).has_value());
    lender.start();
  }

  /// Memory that nothing has written yet, far from what the heap keeps for itself.
  std::byte* fresh(std::size_t size) {
    auto* const memory = static_cast<std::byte*>(arena->allocate(size + 2 * kMib));
    return memory + kMib;
  }
  [[nodiscard]] SharedPlace place_of(const std::byte* bytes) const {
    return {*arena->offset_of({bytes, 1}), 0, 1};
  }
  /// Bytes of the pages that the arena has, whichever process made them.
  [[nodiscard]] std::size_t bytes_of_pages() const {
    struct stat status = {};
    REQUIRE(fstat(static_cast<int>(arena->offer().descriptor), &status) == 0);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }

  std::shared_ptr<SharedArena> arena = SharedArena::create(Bytes(1024 * kMib)).value();
  std::shared_ptr<SharedArena> other = SharedArena::create(Bytes(64 * kMib)).value();
  SharedLink lender{arena};
  SharedLink borrower{other};
};

std::size_t sum_of(const Frame& frame) {
  std::size_t sum = 0;
  for (const std::byte byte : frame.bytes()) sum += static_cast<std::size_t>(byte);
  return sum;
}

}  // namespace

TEST_CASE("what a peer names and has never written is refused, and makes no page", "[shared]") {
  Lending lending;
  const std::size_t before = lending.bytes_of_pages();
  const std::uint64_t end = lending.arena->offer().size;
  for (std::uint64_t offset = kMib; offset + kMib <= end; offset += kMib) {
    const auto frame = lending.borrower.borrow({offset, 0, 1}, kMib);
    CHECK_FALSE(frame.has_value());
    // As its reader would.
    if (frame.has_value()) CHECK(sum_of(frame.value()) == 0);
  }
  CHECK(lending.bytes_of_pages() == before);
}

TEST_CASE("a payload is borrowed once all of it was written", "[shared]") {
  Lending lending;
  std::byte* const bytes = lending.fresh(kMib);
  const SharedPlace place = lending.place_of(bytes);
  CHECK_FALSE(lending.borrower.borrow(place, kMib).has_value());
  std::memset(bytes, 1, kMib / 2);
  CHECK_FALSE(lending.borrower.borrow(place, kMib).has_value());
  CHECK(sum_of(lending.borrower.borrow(place, kMib / 2).value()) == kMib / 2);
  std::memset(bytes + kMib / 2, 1, kMib / 2);
  CHECK(sum_of(lending.borrower.borrow(place, kMib).value()) == kMib);
}

TEST_CASE("a buffer that was never filled may be lent: its sender makes the pages", "[shared]") {
  Lending lending;
  std::byte* const bytes = lending.fresh(kMib);
  const Frame payload(lending.arena, {bytes + 100, kMib - 200});
  const std::size_t before = lending.bytes_of_pages();
  const auto place = lending.lender.lend(payload);
  REQUIRE(place.has_value());
  CHECK(lending.bytes_of_pages() >= before + kMib - 4096);
  const auto frame = lending.borrower.borrow(*place, payload.size());
  REQUIRE(frame.has_value());
  CHECK(sum_of(frame.value()) == 0);
}

TEST_CASE("an owner of pages that stay cannot remove them", "[shared]") {
  const Lending lending;
  const int memory = static_cast<int>(lending.arena->offer().descriptor);
  CHECK(fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
  auto* const block = static_cast<std::byte*>(lending.arena->allocate(4 * kMib));
  std::memset(block, 1, 4 * kMib);
  const std::size_t before = lending.bytes_of_pages();
  lending.arena->deallocate(block, 4 * kMib);
  CHECK(lending.bytes_of_pages() == before);
}

TEST_CASE("memory whose pages its owner can remove is not opened where pages must stay",
          "[shared]") {
  const auto arena = SharedArena::create(Bytes(kMib), {}, ArenaPages::kReturned).value();
  const SharedLink theirs(arena);
  SharedLink link(SharedArena::create(Bytes(kMib)).value());
  const auto refused = link.open(theirs.offer(), ArenaPages::kStay);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_FALSE(link.is_open());
  CHECK(link.open(theirs.offer()).has_value());
}

TEST_CASE("loans are not given back where the peer has never written", "[shared]") {
  Lending lending;
  SharedLink::Offer offer = lending.lender.offer();
  offer.returns = offer.memory.size / 2;
  SharedLink link(lending.other);
  CHECK_FALSE(link.open(offer, ArenaPages::kStay).has_value());
  CHECK_FALSE(link.is_open());
}

TEST_CASE("what was written is borrowed after its owner has closed it, and nothing else",
          "[shared]") {
  Lending lending;
  auto arena = SharedArena::create(Bytes(64 * kMib)).value();
  auto* const bytes = static_cast<std::byte*>(arena->allocate(3 * kMib));
  std::memset(bytes, 1, kMib);
  const SharedPlace place{*arena->offset_of({bytes, 1}), 0, 1};
  const SharedPlace hole{place.offset + 8 * kMib, 0, 1};
  SharedLink link(lending.other);
  {
    const SharedLink theirs(arena);
    REQUIRE(link.open(theirs.offer(), ArenaPages::kStay).has_value());
  }
  CHECK(link.borrow(place, kMib).has_value());
  arena.reset();
  CHECK_FALSE(link.is_alive());
  CHECK(sum_of(link.borrow(place, kMib).value()) == kMib);
  CHECK_FALSE(link.borrow(hole, kMib).has_value());
}

TEST_CASE("ranges that touch are one, and more than a limit are forgotten", "[shared]") {
  ByteRanges ranges;
  CHECK(ranges.contains(5, 5));
  CHECK_FALSE(ranges.contains(5, 6));
  ranges.add(10, 20);
  ranges.add(30, 40);
  CHECK(ranges.contains(10, 20));
  CHECK_FALSE(ranges.contains(9, 11));
  CHECK_FALSE(ranges.contains(15, 35));
  CHECK_FALSE(ranges.contains(20, 21));
  ranges.add(20, 30);
  CHECK(ranges.count() == 1);
  CHECK(ranges.contains(10, 40));
  ranges.add(5, 50);
  ranges.add(12, 13);
  ranges.add(7, 7);
  CHECK(ranges.count() == 1);
  CHECK(ranges.contains(5, 50));
  for (std::uint64_t i = 0; i < 3 * ByteRanges::kMaxRanges; ++i) {
    ranges.add(100 + 10 * i, 105 + 10 * i);
    CHECK(ranges.contains(100 + 10 * i, 105 + 10 * i));
    CHECK(ranges.count() <= ByteRanges::kMaxRanges);
  }
}
