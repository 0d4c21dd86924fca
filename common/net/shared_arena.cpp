#include "common/net/shared_arena.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/indexes/null_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <utility>

#include "common/check.hpp"
#include "common/net/byte_ranges.hpp"

namespace taut {
namespace {

namespace bip = boost::interprocess;

// The arena's own lock guards the heap, so the heap needs none; and nothing in it has a name.
using Heap = bip::basic_managed_external_buffer<char, bip::rbtree_best_fit<bip::null_mutex_family>,
                                                bip::null_index>;

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHeadRoom = 4096;
static_assert(sizeof(SharedArenaHead) <= kHeadRoom);
// Processes share it, so no lock of one process may guard it.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
constexpr std::size_t kGrowth = 64UL << 20U;
// Freed blocks of at least this size return their pages to the system.
constexpr std::size_t kReturnedAbove = 1UL << 20U;

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_size();
}

SharedMemoryOffer::Probe random_probe() {
  SharedMemoryOffer::Probe probe;
  std::random_device device;
  for (std::byte& byte : probe) byte = static_cast<std::byte>(device());
  return probe;
}

Error failed(const char* call) {
  return make_error(ErrorCode::kIo, fmt::format("{}: {}", call, std::strerror(errno)));
}

}  // namespace

struct SharedArena::State {
  ~State() {
    if (descriptor >= 0) close(descriptor);
  }
  [[nodiscard]] std::byte* base() const { return static_cast<std::byte*>(region.get_address()); }
  [[nodiscard]] SharedArenaHead& head() const {
    return *std::launder(reinterpret_cast<SharedArenaHead*>(base()));
  }

  /// A stretch of the arena with its own heap: no block reaches into another part.
  struct Part {
    Part(std::byte* begin, std::size_t size) : bytes(begin, size) {
      heap.emplace(bip::create_only, begin, size);
    }
    std::span<std::byte> bytes;
    std::optional<Heap> heap;
  };

  /// Makes at least `more` bytes usable. Throws std::bad_alloc beyond the limit.
  ///
  /// A device's driver pins each part separately and refuses a copy across the border of two, so
  /// with on_grown each part has its own heap. Otherwise the only heap grows.
  void grow(std::size_t more) {
    more = (std::max(more, kGrowth) + page_size() - 1) / page_size() * page_size();
    more = std::min(more, size - used);
    if (more == 0) throw std::bad_alloc();
    std::byte* const begin = base() + used;
    if (on_grown) on_grown({begin, more});
    if (parts.empty() || on_grown) {
      parts.emplace_back(begin, more);
    } else {
      Part& only = parts.front();
      only.heap->grow(more);
      only.bytes = {only.bytes.data(), only.bytes.size() + more};
    }
    used += more;
  }

  void count_returned(std::uintptr_t first, std::uintptr_t last) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(base());
    constexpr std::size_t kRange = SharedArenaHead::kRange;
    for (std::size_t range = (first - begin) / kRange; begin + range * kRange < last; ++range) {
      head().pages_returned[range % SharedArenaHead::kCounts].fetch_add(1);
    }
  }

  /// nullptr if no part has room for `length` bytes.
  void* allocate(std::size_t length) {
    for (Part& part : parts) {
      void* const memory = part.heap->allocate_aligned(length, kAlignment, std::nothrow);
      if (memory != nullptr) return memory;
    }
    return nullptr;
  }

  void deallocate(void* memory) {
    const auto* const at = static_cast<const std::byte*>(memory);
    const auto owner = std::ranges::find_if(parts, [&](const Part& part) {
      return at >= part.bytes.data() && at < part.bytes.data() + part.bytes.size();
    });
    TAUT_CHECK(owner != parts.end(), "memory of another arena");
    owner->heap->deallocate(memory);
  }

  int descriptor = -1;
  std::size_t size = 0;
  ArenaPages pages = ArenaPages::kStay;
  bip::mapped_region region;
  OnGrown on_grown;
  std::mutex touching;
  ByteRanges touched;  // where pages stay, by touch(); guarded by `touching`
  std::mutex mutex;    // guards all below
  std::deque<Part> parts;
  bool abandoned = false;
  std::size_t used = kHeadRoom;  // bytes from the start that are in use or reserved
};

Result<std::shared_ptr<SharedArena>> SharedArena::create(Bytes limit, OnGrown on_grown,
                                                         ArenaPages pages) {
  auto state = std::make_unique<State>();
  const std::size_t budget = limit.value() > 0 ? limit.value() : machine_memory();
  state->size = (budget + kHeadRoom + page_size() - 1) / page_size() * page_size();
  state->on_grown = std::move(on_grown);
  state->pages = pages;
  state->descriptor = memfd_create("tautline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (state->descriptor < 0) return failed("memfd_create");
  if (ftruncate(state->descriptor, static_cast<off_t>(state->size)) != 0) {
    return failed("ftruncate of shared memory");
  }
  try {
    const bip::file_mapping file(fmt::format("/proc/self/fd/{}", state->descriptor).c_str(),
                                 bip::read_write);
    state->region = bip::mapped_region(file, bip::read_write, 0, state->size);
  } catch (const bip::interprocess_exception& failure) {
    return make_error(ErrorCode::kIo, fmt::format("mapping {} bytes of shared memory: {}",
                                                  state->size, failure.what()));
  }
  // After the mapping, which therefore stays writable.
  const int kept = pages == ArenaPages::kStay ? kSealThatKeepsPages : 0;
  if (fcntl(state->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | kept) !=
      0) {
    return failed("sealing shared memory");
  }
  std::shared_ptr<SharedArena> arena(new SharedArena(std::move(state)));
  auto* const head = new (arena->state_->base()) SharedArenaHead;
  head->probe = arena->offer_.probe;
  return arena;
}

SharedArena::SharedArena(std::unique_ptr<State> state) : state_(std::move(state)) {
  offer_.process = static_cast<std::uint32_t>(getpid());
  offer_.descriptor = static_cast<std::uint32_t>(state_->descriptor);
  offer_.size = state_->size;
  offer_.probe = random_probe();
}

SharedArena::~SharedArena() = default;

void* SharedArena::allocate(std::size_t size) {
  std::scoped_lock lock(state_->mutex);
  if (void* const memory = state_->allocate(size)) return memory;
  // The heap's own overhead per block is far below the slack given here.
  state_->grow(size + kGrowth / 4);
  void* const memory = state_->allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void SharedArena::abandon() {
  std::scoped_lock lock(state_->mutex);
  state_->abandoned = true;
}

void SharedArena::deallocate(void* memory, std::size_t size) noexcept {
  {
    std::scoped_lock lock(state_->mutex);
    if (state_->abandoned) return;
  }
  // A device may still copy to and from pinned pages: they are not returned to the system.
  if (size >= kReturnedAbove && !state_->on_grown && state_->pages == ArenaPages::kReturned) {
    const std::size_t page = page_size();
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t first = (begin + page - 1) / page * page;
    const std::uintptr_t last = (begin + size) / page * page;
    // If it fails, the pages stay, and the arena may reuse them.
    madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE);
    // After the removal, and before the memory is used again: a pin in between gets new pages.
    state_->count_returned(first, last);
  }
  std::scoped_lock lock(state_->mutex);
  state_->deallocate(memory);
}

void SharedArena::touch(std::span<const std::byte> bytes) {
  if (state_->pages != ArenaPages::kStay || bytes.empty()) return;
  const auto offset = offset_of(bytes);
  TAUT_CHECK(offset.has_value(), "memory of another arena");
  const std::uint64_t end = *offset + bytes.size();
  const std::scoped_lock lock(state_->touching);
  if (state_->touched.contains(*offset, end)) return;
  // The first byte, and the first of each further page: others may write next to these bytes.
  const std::size_t page = page_size();
  for (std::size_t at = 0; at < bytes.size(); at += page - (*offset + at) % page) {
    static_cast<void>(*static_cast<const volatile std::byte*>(bytes.data() + at));
  }
  state_->touched.add(*offset, end);
}

std::optional<std::uint64_t> SharedArena::offset_of(std::span<const std::byte> bytes) const {
  const auto base = reinterpret_cast<std::uintptr_t>(state_->base());
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (begin < base || begin - base > state_->size) return std::nullopt;
  if (bytes.size() > state_->size - (begin - base)) return std::nullopt;
  return begin - base;
}

}  // namespace taut
