#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "server/slice_state.hpp"
#include "server/tables/table_memory.hpp"

namespace taut::server {

/// Memory to prepare, by a thread that may wait until the system provides it.
/// Thread    any
class SpareStock {
 public:
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Fills the pools' free lists, unless a checkpoint takes from them already.
  /// stop      ends it early
  /// Throws std::bad_alloc.
  void fill(const std::atomic<bool>& stop) const;

 private:
  friend class SpareMemory;
  struct Demand {
    BufferPool pool;
    std::map<std::size_t, std::size_t> buffers;  // how many, by size in bytes
  };
  std::vector<Demand> demands_;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<const std::atomic<bool>> over_;
};

/// Spare memory that a shard no longer needs: it is returned to the system when this is destroyed,
/// which may take a while. Until then it counts toward the server's limit.
/// Thread    any
struct SpareExcess {
  TableMemory::Share share;  // released last
  BufferPool::Excess values;
  BufferPool::Excess states;
};

/// What a shard's slices of one job need in order to continue while a checkpoint holds their
/// memory: the same amount again. Fresh pages cost many times what an update does, so they are
/// requested when a checkpoint is ordered, a while before its clock, and kept for the next one; but
/// only if the server's memory limit leaves room, and only as long as tables do not need it.
/// Without it, the first update of each slice waits for the system.
/// Thread    shard thread
class SpareMemory {
 public:
  /// values, states  the pools that slices take these from
  SpareMemory(BufferPool& values, BufferPool& states) : values_(values), states_(states) {}
  ~SpareMemory() { stop_filling(); }
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  /// Prepares for a new order. Checks again what is available, as other jobs start and end.
  /// slices    the same at every order
  /// limit     nullptr if there is no limit
  /// returns   what must be prepared; nullopt if there is no room, or nothing to keep: the caller
  ///           must then call give_back()
  /// Throws std::bad_alloc; it may be called again.
  [[nodiscard]] std::optional<SpareStock> prepare(std::span<const SliceState* const> slices,
                                                  const std::shared_ptr<TableMemory>& limit);

  /// Releases everything; what a checkpoint still holds is returned to the system after it. nullopt
  /// if nothing was held.
  [[nodiscard]] std::optional<SpareExcess> give_back();

  /// Stops preparing: a checkpoint takes from the free lists now, so more memory would be too late.
  void stop_filling() {
    if (over_) *over_ = true;
  }

 private:
  BufferPool& values_;
  BufferPool& states_;
  struct Reserved {
    BufferPool::Reservation values;
    BufferPool::Reservation states;
  };
  std::optional<TableMemory::Share> share_;
  std::optional<Reserved> reserved_;
  std::shared_ptr<std::atomic<bool>> over_;
};

}  // namespace taut::server
