#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/net/shared_link.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;

namespace {

std::shared_ptr<SharedArena> make_arena(Bytes limit = Bytes(256UL << 20U),
                                        ArenaPages pages = ArenaPages::kStay) {
  auto arena = SharedArena::create(limit, {}, pages);
  REQUIRE(arena.has_value());
  return arena.value();
}

/// What happens on this thread right after the name of an open file was read.
thread_local std::function<void()> after_readlink;

/// Two sides of one process, which have agreed.
struct Pair {
  Pair() {
    REQUIRE(one.open(two.offer()).has_value());
    REQUIRE(two.open(one.offer()).has_value());
    one.start();
    two.start();
  }
  Buffer filled(std::byte value, std::size_t size = 8192) {
    Buffer buffer = pool.acquire(size);
    std::memset(buffer.data(), static_cast<int>(value), size);
    return buffer;
  }

  std::shared_ptr<SharedArena> arena_one = make_arena();
  std::shared_ptr<SharedArena> arena_two = make_arena();
  SharedLink one{arena_one};
  SharedLink two{arena_two};
  BufferPool pool{Bytes(64UL << 20U), arena_one};
};

/// Knows what is pinned; can pin a given number of parts.
class CountedPinning final : public MemoryPinning {
 public:
  explicit CountedPinning(int max_parts) : left_(max_parts) { enable(); }
  bool pin(std::span<const std::byte> part) override {
    ++pins;
    if (left_ == 0) return false;
    --left_;
    return parts.emplace(part.data(), part.size()).second;
  }
  void unpin(std::span<const std::byte> part) noexcept override {
    if (parts.erase(part.data()) == 1) ++unpins;
  }
  bool covers(std::span<const std::byte> /*bytes*/) const override { return false; }

  std::map<const std::byte*, std::size_t> parts;
  int pins = 0;
  int unpins = 0;

 private:
  int left_;
};

/// A payload of `one`'s arena as it arrives at the other side of a link.
Frame lent(SharedLink& one, SharedLink& other, const Buffer& payload) {
  const auto place = one.lend(Frame(payload));
  REQUIRE(place.has_value());
  auto frame = other.borrow(*place, payload.size());
  REQUIRE(frame.has_value());
  return std::move(frame.value());
}

/// A side that borrows one payload of another, and what it pins.
struct Borrowing {
  explicit Borrowing(std::shared_ptr<MemoryPinning> pinning)
      : two(make_arena(), std::move(pinning)) {
    REQUIRE(one.open(two.offer()).has_value());
    REQUIRE(two.open(one.offer()).has_value());
    one.start();
  }
  Frame lend() { return lent(one, two, payload); }

  // As a server's.
  std::shared_ptr<SharedArena> arena = make_arena(Bytes(256UL << 20U), ArenaPages::kReturned);
  BufferPool pool{Bytes(64UL << 20U), arena};
  SharedLink one{arena};
  SharedLink two;
  Buffer payload = pool.acquire(8192);
};

}  // namespace

/// The C library's, and then what a test has happen.
extern "C" ssize_t readlink(const char* path, char* target, std::size_t size) noexcept {
  const ssize_t count = syscall(SYS_readlink, path, target, size);
  if (after_readlink) after_readlink();
  return count;
}

TEST_CASE("an arena gives aligned memory, recognizes its own, and ends at its limit", "[shared]") {
  std::size_t announced = 0;
  auto arena = SharedArena::create(Bytes(1UL << 20U), [&](std::span<std::byte> part) {
                 announced += part.size();
               }).value();
  auto* memory = static_cast<std::byte*>(arena->allocate(100'000));
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
  CHECK(announced >= 100'000);
  CHECK(arena->offset_of({memory, 100'000}).has_value());
  CHECK_FALSE(arena->offset_of({memory, 8UL << 20U}).has_value());
  const std::vector<std::byte> elsewhere(10);
  CHECK_FALSE(arena->offset_of(elsewhere).has_value());
  CHECK_THROWS_AS(arena->allocate(2UL << 20U), std::bad_alloc);
  arena->deallocate(memory, 100'000);
  memory = static_cast<std::byte*>(arena->allocate(900'000));
  CHECK(announced <= 1UL << 20U);
  arena->deallocate(memory, 900'000);
}

TEST_CASE("memory freed in large blocks is returned to the system", "[shared]") {
  auto arena = make_arena(Bytes(256UL << 20U), ArenaPages::kReturned);
  constexpr std::size_t kSize = 32UL << 20U;
  void* memory = arena->allocate(kSize);
  std::memset(memory, 1, kSize);
  arena->deallocate(memory, kSize);
  memory = arena->allocate(kSize);
  // A page that the system had back is zero when it comes again.
  CHECK(static_cast<const char*>(memory)[kSize / 2] == 0);
  arena->deallocate(memory, kSize);
}

TEST_CASE("memory that a device has pinned keeps its pages when it is freed", "[shared]") {
  auto arena = SharedArena::create(
                   Bytes(0), [](std::span<std::byte>) {}, ArenaPages::kReturned)
                   .value();
  constexpr std::size_t kSize = 32UL << 20U;
  void* memory = arena->allocate(kSize);
  std::memset(memory, 1, kSize);
  arena->deallocate(memory, kSize);
  memory = arena->allocate(kSize);
  CHECK(static_cast<const char*>(memory)[kSize / 2] == 1);
  arena->deallocate(memory, kSize);
}

TEST_CASE("no buffer extends over two parts that a device has pinned", "[shared]") {
  std::vector<std::span<std::byte>> parts;
  auto arena = SharedArena::create(Bytes(1UL << 30U), [&](std::span<std::byte> part) {
                 parts.push_back(part);
               }).value();
  // Each takes less than the arena grows by, and leaves a tail in which the next one does not fit.
  constexpr std::size_t kSize = 27UL << 20U;
  std::vector<std::byte*> buffers(12);
  for (std::byte*& buffer : buffers) buffer = static_cast<std::byte*>(arena->allocate(kSize));
  CHECK(parts.size() > 1);
  for (std::byte* const buffer : buffers) {
    const bool in_one = std::any_of(parts.begin(), parts.end(), [&](std::span<std::byte> part) {
      return buffer >= part.data() && buffer + kSize <= part.data() + part.size();
    });
    CHECK(in_one);
  }
  const std::size_t grown = parts.size();
  for (std::byte* const buffer : buffers) arena->deallocate(buffer, kSize);
  // What was freed is used again, in whichever part it is.
  for (std::byte*& buffer : buffers) buffer = static_cast<std::byte*>(arena->allocate(kSize));
  CHECK(parts.size() == grown);
  for (std::byte* const buffer : buffers) arena->deallocate(buffer, kSize);
}

TEST_CASE("only the memory that was offered is opened", "[shared]") {
  const auto arena = make_arena();
  const SharedMemoryOffer good = arena->offer();
  CHECK(SharedView::open(good).has_value());

  SharedMemoryOffer bad = good;
  bad.probe[3] ^= std::byte{1};
  CHECK(SharedView::open(bad).error().code == ErrorCode::kMismatch);
  bad = good;
  bad.size += 4096;
  CHECK(SharedView::open(bad).error().code == ErrorCode::kMismatch);
  bad = good;
  bad.process = 0x7fffffff;
  CHECK(SharedView::open(bad).error().code == ErrorCode::kNotFound);

  // A pipe would block who opens it; memory that may be shortened would kill who reads it.
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  bad = good;
  bad.descriptor = static_cast<std::uint32_t>(ends[0]);
  CHECK(SharedView::open(bad).error().code == ErrorCode::kNotFound);
  const int unsealed = memfd_create("tautline", MFD_CLOEXEC);
  REQUIRE(ftruncate(unsealed, static_cast<off_t>(good.size)) == 0);
  bad.descriptor = static_cast<std::uint32_t>(unsealed);
  CHECK(SharedView::open(bad).error().code == ErrorCode::kMismatch);
  close(ends[0]);
  close(ends[1]);
  close(unsealed);
}

TEST_CASE("memory of huge pages is not opened: none may be left when it is read", "[shared]") {
  const int memory = memfd_create("tautline", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (memory < 0) {
    WARN("this kernel has no huge pages");
    return;
  }
  constexpr std::size_t kSize = 2UL << 20U;
  REQUIRE(ftruncate(memory, static_cast<off_t>(kSize)) == 0);
  REQUIRE(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  SharedMemoryOffer offer = make_arena()->offer();
  offer.descriptor = static_cast<std::uint32_t>(memory);
  offer.size = kSize;
  CHECK(SharedView::open(offer).error().code == ErrorCode::kMismatch);
  close(memory);
}

TEST_CASE("a pipe that takes the place of offered memory is not waited for", "[shared]") {
  const auto arena = make_arena();
  const test::TempFolder folder;
  const std::string name = (folder.path() / "pipe").string();
  REQUIRE(mkfifo(name.c_str(), 0600) == 0);
  const int pipe = open(name.c_str(), O_RDONLY | O_NONBLOCK);  // no writer: others would wait
  REQUIRE(pipe >= 0);
  SharedMemoryOffer offer = arena->offer();
  const int exchanged = dup(static_cast<int>(offer.descriptor));
  REQUIRE(exchanged >= 0);
  offer.descriptor = static_cast<std::uint32_t>(exchanged);
  std::atomic<bool> has_ended = false;
  bool is_open = false;
  std::thread opener([&] {
    // The peer exchanges what it has offered as soon as it was looked at.
    after_readlink = [&] { dup2(pipe, exchanged); };
    is_open = SharedView::open(offer).has_value();
    after_readlink = nullptr;
    has_ended = true;
  });
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!has_ended && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
  CHECK(has_ended);
  // Releases one that waits.
  const int writer = open(name.c_str(), O_WRONLY | O_NONBLOCK);
  opener.join();
  CHECK(is_open);
  close(writer);
  close(exchanged);
  close(pipe);
}

TEST_CASE("a lent payload is read in place, and is returned with its last copy", "[shared]") {
  Pair pair;
  Buffer buffer = pair.filled(std::byte{7});
  const auto place = pair.one.lend(Frame(buffer));
  REQUIRE(place);
  Frame borrowed = pair.two.borrow(*place, buffer.size()).value();
  CHECK(borrowed.bytes()[8191] == std::byte{7});
  buffer.data()[8191] = std::byte{8};
  CHECK(borrowed.bytes()[8191] == std::byte{8});
  Frame copy = borrowed.part(10, 20);
  borrowed = Frame();
  pair.one.collect();
  CHECK_FALSE(buffer.unshared());
  copy = Frame();
  CHECK_FALSE(buffer.unshared());
  pair.one.collect();
  CHECK(buffer.unshared());
  CHECK(pair.one.on_loan() == 0);
}

TEST_CASE("a payload lent twice is returned when both loans are", "[shared]") {
  Pair pair;
  Buffer buffer = pair.filled(std::byte{1});
  const auto first = pair.one.lend(Frame(buffer));
  const auto second = pair.one.lend(Frame(buffer));
  (void)pair.two.borrow(*second, buffer.size());
  pair.one.collect();
  CHECK(pair.one.on_loan() == 1);
  CHECK_FALSE(buffer.unshared());
  (void)pair.two.borrow(*first, buffer.size());
  pair.one.collect();
  CHECK(buffer.unshared());
}

TEST_CASE("a loan of a link that has an earlier one's place is not taken for returned",
          "[shared]") {
  const auto arena = make_arena();
  BufferPool pool(Bytes(1U << 20U), arena);
  const Buffer payload = pool.acquire(4096);
  SharedLink other(make_arena());
  SharedLink::Offer first;
  for (int life = 0; life < 3; ++life) {
    SharedLink link(arena);
    if (life == 0) first = link.offer();
    // The other side knows no difference.
    REQUIRE(link.offer() == first);
    if (life == 0) REQUIRE(other.open(first).has_value());
    REQUIRE(link.open(other.offer()).has_value());
    link.start();
    const auto place = link.lend(Frame(payload));
    REQUIRE(place.has_value());
    link.collect();
    CHECK(link.on_loan() == 1);
    REQUIRE(other.borrow(*place, 4096).has_value());
    link.collect();
    CHECK(link.on_loan() == 0);
  }
}

TEST_CASE("small payloads, others' memory and excess loans are sent as bytes", "[shared]") {
  Pair pair;
  CHECK_FALSE(pair.one.lend(Frame(pair.filled(std::byte{1}, 100))));
  const std::vector<std::byte> elsewhere(10'000);
  CHECK_FALSE(pair.one.lend(Frame::copy_of(elsewhere)));
  const Buffer buffer = pair.filled(std::byte{1});
  for (std::uint32_t i = 0; i < SharedLink::kMaxLoans; ++i) REQUIRE(pair.one.lend(Frame(buffer)));
  CHECK_FALSE(pair.one.lend(Frame(buffer)));
  const std::uint64_t before = pair.one.lent_so_far();
  pair.one.undo_since(before - 5);
  CHECK(pair.one.on_loan() == SharedLink::kMaxLoans - 5);
  CHECK(pair.one.lend(Frame(buffer)));
}

TEST_CASE("a place outside of the other side's memory is refused", "[shared]") {
  Pair pair;
  const std::uint64_t size = pair.arena_one->offer().size;
  CHECK(pair.two.borrow({0, 0, 1}, 4096).has_value());
  CHECK_FALSE(pair.two.borrow({size - 4095, 0, 1}, 4096).has_value());
  CHECK_FALSE(pair.two.borrow({~0ULL - 10, 0, 1}, 4096).has_value());
  CHECK_FALSE(pair.two.borrow({0, 0, 1}, size + 1).has_value());
  CHECK_FALSE(pair.two.borrow({0, SharedLink::kMaxLoans, 1}, 4096).has_value());
  SharedLink alone(pair.arena_two);
  CHECK_FALSE(alone.borrow({0, 0, 1}, 4096).has_value());
  SharedLink::Offer bad = pair.one.offer();
  bad.returns = bad.memory.size - 64;
  CHECK_FALSE(alone.open(bad).has_value());
}

TEST_CASE("what is borrowed is pinned by parts, until the last copy is gone", "[shared]") {
  const auto arena = make_arena();
  BufferPool pool(Bytes(64UL << 20U), arena);
  const auto pinning = std::make_shared<CountedPinning>(100);
  Frame kept;
  {
    SharedLink one(arena);
    SharedLink two(make_arena(), pinning);
    REQUIRE(one.open(two.offer()).has_value());
    REQUIRE(two.open(one.offer()).has_value());
    one.start();
    CHECK(pinning->pins == 0);
    // More than a part holds, so that some of it is in each of several.
    std::vector<Buffer> payloads;
    payloads.reserve(5);
    for (int i = 0; i < 5; ++i) payloads.push_back(pool.acquire(5UL << 20U));
    for (const Buffer& payload : payloads) kept = lent(one, two, payload);
    CHECK(pinning->pins == static_cast<int>(pinning->parts.size()));
    CHECK(pinning->parts.size() >= 2);
    for (const auto& [begin, size] : pinning->parts) {
      const auto address = reinterpret_cast<std::uintptr_t>(begin);
      // The first starts with the mapping, and all end where a part may.
      CHECK((address + size) % MemoryPinning::kPart == 0);
      if (begin != pinning->parts.begin()->first) CHECK(address % MemoryPinning::kPart == 0);
    }
    const int pins = pinning->pins;
    (void)lent(one, two, payloads.front());
    CHECK(pinning->pins == pins);
  }
  CHECK(pinning->unpins == 0);
  kept = Frame();
  CHECK(pinning->parts.empty());
  CHECK(pinning->unpins == pinning->pins);
}

TEST_CASE("what is borrowed is pinned again after its owner has returned pages", "[shared]") {
  const auto pinning = std::make_shared<CountedPinning>(100);
  Borrowing side(pinning);
  (void)side.lend();
  CHECK(pinning->pins == 1);
  for (int round = 1; round < 4; ++round) {
    side.arena->deallocate(side.arena->allocate(2UL << 20U), 2UL << 20U);
    (void)side.lend();
    (void)side.lend();
    CHECK(pinning->pins == 1 + round);
    CHECK(pinning->unpins == round);
  }
  CHECK(pinning->parts.size() == 1);
  // What is returned far from it is no matter.
  void* const between = side.arena->allocate(32UL << 20U);
  side.arena->deallocate(side.arena->allocate(2UL << 20U), 2UL << 20U);
  side.arena->deallocate(between, 0);
  (void)side.lend();
  CHECK(pinning->pins == 4);
}

TEST_CASE("nothing is pinned before a device has a use for it", "[shared]") {
  class Idle final : public MemoryPinning {
   public:
    bool pin(std::span<const std::byte> /*part*/) override { return ++pins > 0; }
    void unpin(std::span<const std::byte> /*part*/) noexcept override {}
    bool covers(std::span<const std::byte> /*bytes*/) const override { return false; }
    int pins = 0;
  };
  const auto pinning = std::make_shared<Idle>();
  Borrowing side(pinning);
  (void)side.lend();
  CHECK(pinning->pins == 0);
  pinning->enable();
  (void)side.lend();
  CHECK(pinning->pins == 1);
}

TEST_CASE("the pages that are returned are counted once they are", "[shared]") {
  SharedArenaHead head;
  head.pages_returned[1] = 3;
  CHECK(head.returned(0, SharedArenaHead::kRange) == 0);
  CHECK(head.returned(0, SharedArenaHead::kRange + 1) == 3);
  CHECK(head.returned(SharedArenaHead::kRange, 2 * SharedArenaHead::kRange) == 3);
  // The ranges beyond the counts share them.
  const std::size_t all = SharedArenaHead::kCounts * SharedArenaHead::kRange;
  CHECK(head.returned(all + SharedArenaHead::kRange, all + 2 * SharedArenaHead::kRange) == 3);
}

TEST_CASE("memory that cannot be pinned is read all the same, and not tried again", "[shared]") {
  const auto pinning = std::make_shared<CountedPinning>(0);
  Borrowing side(pinning);
  std::memset(side.payload.data(), 7, side.payload.size());
  for (int i = 0; i < 3; ++i) CHECK(side.lend().bytes()[8191] == std::byte{7});
  CHECK(pinning->pins == 1);
  CHECK(pinning->unpins == 0);
}
