#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "worker/cache/value_memory.hpp"

namespace taut::lab {

/// Values of tables that many workers have read: those that are alike are stored once, for as long
/// as any worker has them.
class ValuePool {
 public:
  using Values = std::shared_ptr<const std::vector<float>>;

  /// The stored values of a table that equal these, or a copy of them.
  [[nodiscard]] Values keep(TableId table, std::span<const float> values);
  /// Different values that are stored.
  [[nodiscard]] std::size_t size() const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  // table, hash
  std::map<Key, std::weak_ptr<const std::vector<float>>> stored_;
  std::size_t clean_at_ = 64;  // entries
};

/// A worker's values in a pool. Where fresh ones are written takes memory only from then until
/// bring().
class SharedValues final : public ValueMemory {
 public:
  /// pool  outlives this
  /// Throws std::bad_alloc
  SharedValues(ValuePool& pool, const std::vector<TableSpec>& tables);
  ~SharedValues() override;

  std::span<float> fresh(TableId table) override;
  void bring(TableId table) override;
  [[nodiscard]] DeviceSpan<const float> front(TableId table) const override;

 private:
  struct Table {
    std::size_t offset = 0;  // of its fresh values' pages
    std::size_t count = 0;
    ValuePool::Values front;
  };
  ValuePool& pool_;
  std::vector<Table> tables_;
  std::size_t bytes_ = 0;
  std::byte* pages_ = nullptr;
};

}  // namespace taut::lab
