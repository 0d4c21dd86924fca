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

/// Memory that is to be prepared, by a thread that may wait for the system to give it.
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
    std::map<std::size_t, std::size_t> buffers;  // how many of so many bytes
  };
  std::vector<Demand> demands_;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<const std::atomic<bool>> over_;
};

/// Spare memory that a shard does without from now on: it goes back to the system with this object,
/// which may take a while. Until then it counts under the server's limit.
/// Thread    any
struct SpareExcess {
  TableMemory::Share share;  // goes last
  BufferPool::Excess values;
  BufferPool::Excess states;
};

/// What a shard's slices of one job need in order to continue while a checkpoint holds their
/// memory: as much again. Fresh pages cost many times what an update does, so they are requested
/// when a checkpoint is ordered, a while before its clock, and kept for the next one; but only
/// where the server's memory limit leaves room, and no longer than tables leave it. Without it each
/// first update of a slice waits for the system.
/// Thread    shard thread
class SpareMemory {
 public:
  /// values, states  the pools that slices take these from
  SpareMemory(BufferPool& values, BufferPool& states) : values_(values), states_(states) {}
  ~SpareMemory() { stop_filling(); }
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  /// For a new order: availability is judged again, as other jobs start and end.
  /// slices    the same at every order
  /// limit     nullptr if there is no limit
  /// returns   what is to be prepared; nullopt if there is no room, or nothing to keep: what is
  ///           held is to be given back then
  /// Throws std::bad_alloc; it may be called again.
  [[nodiscard]] std::optional<SpareStock> prepare(std::span<const SliceState* const> slices,
                                                  const std::shared_ptr<TableMemory>& limit);

  /// Lets everything go; what a checkpoint still holds goes back to the system with that. Nothing:
  /// there was nothing.
  [[nodiscard]] std::optional<SpareExcess> give_back();

  /// A checkpoint takes from the free lists now: memory prepared later would be too late.
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
