#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"

namespace taut {

/// What another process of the same machine needs to find an arena. Whether it can reach it is
/// tried, not guessed from names: the probe must lie at the arena's start.
struct SharedMemoryOffer {
  using Probe = std::array<std::byte, 16>;

  std::uint32_t process = 0;     // whose memory it is, as its own pid namespace numbers it
  std::uint32_t descriptor = 0;  // of that process
  std::uint64_t size = 0;        // bytes
  Probe probe{};                 // drawn at random for each arena
  friend bool operator==(const SharedMemoryOffer&, const SharedMemoryOffer&) = default;
};

/// Memory that other processes of this machine may map, read-only: buffers taken from it travel
/// between processes as a place instead of as bytes. It has no name and belongs to a descriptor, so
/// that nothing of it stays behind, however its process ends. Its size is sealed, so that who maps
/// it never meets memory that is gone.
/// One client or shard has it: abandon() is for all of it.
/// Thread    any
class SharedArena final : public BufferAllocator {
 public:
  /// Told of each part that is about to be used for the first time, so that a device's driver can
  /// pin it. Called under the arena's lock.
  using OnGrown = std::function<void(std::span<std::byte> part)>;

  /// Reserves address space for `limit` bytes (0: as many as the machine has memory); memory is
  /// taken as it is used.
  /// Errors    io: the system has no memory without a name, or no address space left
  [[nodiscard]] static Result<std::shared_ptr<SharedArena>> create(Bytes limit = Bytes(0),
                                                                   OnGrown on_grown = {});
  ~SharedArena() override;
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// Aligned to 64 bytes. Throws std::bad_alloc beyond the limit.
  [[nodiscard]] void* allocate(std::size_t size) override;
  void deallocate(void* memory, std::size_t size) noexcept override;

  /// From now on nothing that is given back is used again or written: its owner ends, and other
  /// processes may still read what was lent to them.
  void abandon();

  /// How far from the arena's start the bytes lie; nothing where they are not the arena's.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::span<const std::byte> bytes) const;
  [[nodiscard]] const SharedMemoryOffer& offer() const { return offer_; }

 private:
  struct State;
  explicit SharedArena(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
  SharedMemoryOffer offer_;
};

}  // namespace taut
