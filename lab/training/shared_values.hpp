#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/net/message.hpp"
#include "lab/training/page_allocator.hpp"
#include "worker/cache/value_memory.hpp"

namespace taut::lab {

/// Values of tables that many workers have read: equal ones are stored once, for as long as any
/// worker has them.
class ValuePool {
 public:
  using Values = std::shared_ptr<const Buffer>;

  /// The stored values of a table that equal these, or a copy of them.
  [[nodiscard]] Values keep(TableId table, std::span<const float> values);
  /// Overload for values in parts, one after the other.
  [[nodiscard]] Values keep(TableId table, const std::vector<Frame>& parts);
  /// The number of different values that are stored.
  [[nodiscard]] std::size_t size() const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  // table, hash
  static constexpr Bytes kFree{64UL << 20U};            // freed memory that is kept for reuse
  BufferPool memory_{kFree, page_allocator()};
  std::map<Key, std::weak_ptr<const Buffer>> stored_;
  std::size_t clean_at_ = 64;  // entries
  std::vector<float> whole_;   // of parts
};

/// A worker's values in a pool. Fresh ones are the shards' answers themselves, shared with others;
/// front ones exist from bring() until fresh ones are requested.
class SharedValues final : public ValueMemory {
 public:
  /// pool  outlives this
  /// Throws std::bad_alloc
  SharedValues(ValuePool& pool, const std::vector<TableSpec>& tables);
  ~SharedValues() override;

  /// An address range that names the table's values; its memory is neither read nor written.
  std::span<float> fresh(TableId table) override;
  /// The fresh values of a part of a table have arrived.
  /// into  within fresh()
  void take(std::span<float> into, const Frame& values);
  /// REQUIRES: every part has arrived.
  void bring(TableId table) override;
  [[nodiscard]] DeviceSpan<const float> front(TableId table) const override;

 private:
  struct Table {
    std::size_t offset = 0;  // of its place, in bytes
    std::size_t count = 0;
    std::map<std::size_t, Frame> fresh;  // by their offset in the table's place
    ValuePool::Values front;
  };
  ValuePool& pool_;
  std::vector<Table> tables_;
  std::size_t bytes_ = 0;
  std::byte* places_ = nullptr;  // addresses without memory
};

}  // namespace taut::lab
