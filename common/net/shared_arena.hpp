#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"

namespace taut {

/// What another process on the same machine needs to map an arena. Whether it can is tested, not
/// inferred from names: the probe must be at the arena's start.
struct SharedMemoryOffer {
  using Probe = std::array<std::byte, 16>;

  std::uint32_t process = 0;     // the owner's id, in its own pid namespace
  std::uint32_t descriptor = 0;  // a file descriptor of that process
  std::uint64_t size = 0;        // bytes
  Probe probe{};                 // drawn at random for each arena
  friend bool operator==(const SharedMemoryOffer&, const SharedMemoryOffer&) = default;
};

/// What happens to an arena's pages once they are written.
enum class ArenaPages : std::uint8_t {
  /// They stay until the arena ends: a seal keeps the owner from removing them. Reading what was
  /// once written allocates no page.
  kStay,
  /// Those of a large block are returned to the system when the block is freed.
  kReturned,
};

/// F_SEAL_FUTURE_WRITE, which older headers lack: no page can be removed, and only mappings made
/// before the seal can write.
inline constexpr int kSealThatKeepsPages = 0x0010;

/// How an arena starts, in every process that maps it.
struct SharedArenaHead {
  static constexpr std::uint64_t kMark = 0x7461'7574'6172'6531;

  /// Bytes of a range, and the number of counters; range i uses counter i modulo kCounts.
  static constexpr std::size_t kRange = 8UL << 20U;
  static constexpr std::size_t kCounts = 256;

  /// How often pages of these bytes were returned, including ranges that share a counter.
  [[nodiscard]] std::uint64_t returned(std::size_t begin, std::size_t end) const {
    std::uint64_t sum = 0;
    for (std::size_t range = begin / kRange; range * kRange < end; ++range) {
      sum += pages_returned[range % kCounts].load();
    }
    return sum;
  }

  SharedMemoryOffer::Probe probe{};
  std::uint64_t mark = kMark;
  /// How often the owner has returned pages of a range to the system, counted before they are used
  /// again: memory that a device's driver pinned earlier then has other pages than processes see.
  alignas(64) std::array<std::atomic<std::uint64_t>, kCounts> pages_returned{};
};

/// Memory that other processes of this machine may map, read-only: its buffers are sent
/// between processes as offsets instead of bytes. It has no name and belongs to a descriptor, so
/// that nothing remains, however its process ends. Its size is sealed, so that a process that maps
/// it never touches missing memory.
/// It has one owner, a client or a shard: abandon() affects all of it.
/// Thread    any
class SharedArena final : public BufferAllocator {
 public:
  /// Called with each part before its first use, so that a device's driver can
  /// pin it; no buffer then extends over two parts. Called under the arena's lock.
  using OnGrown = std::function<void(std::span<std::byte> part)>;

  /// Reserves address space for `limit` bytes (0: the size of the machine's memory); memory is
  /// committed on use. A shard opens only arenas of members whose pages stay.
  /// Errors    io: the system has no memfd, no such seal, or no address space left
  [[nodiscard]] static Result<std::shared_ptr<SharedArena>> create(
      Bytes limit = Bytes(0), OnGrown on_grown = {}, ArenaPages pages = ArenaPages::kStay);
  ~SharedArena() override;
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// Aligned to 64 bytes. Throws std::bad_alloc beyond the limit.
  [[nodiscard]] void* allocate(std::size_t size) override;
  void deallocate(void* memory, std::size_t size) noexcept override;

  /// Called before bytes are lent: allocates their pages, where pages stay. A reader refuses bytes
  /// that have no page, such as those of a buffer that was never filled.
  void touch(std::span<const std::byte> bytes);

  /// From now on freed memory is neither reused nor written: the owner is ending, and other
  /// processes may still read borrowed buffers.
  void abandon();

  /// The offset of the bytes from the arena's start; nullopt if they are not the arena's.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::span<const std::byte> bytes) const;
  [[nodiscard]] const SharedMemoryOffer& offer() const { return offer_; }

 private:
  struct State;
  explicit SharedArena(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
  SharedMemoryOffer offer_;
};

}  // namespace taut
