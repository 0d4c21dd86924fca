#pragma once

#include <memory>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/message.hpp"
#include "common/ssp/table.hpp"
#include "worker/cache/value_store.hpp"
#include "worker/client/client.hpp"

namespace taut::lab {

/// Memory that all workers share where none learns: what is read is never used, and every update is
/// zero.
struct CostMemory {
  explicit CostMemory(const std::vector<TableSpec>& tables);

  /// Returns `bytes` zeros, in memory that all callers share.
  [[nodiscard]] Frame zeros(std::size_t bytes);

  struct Table {
    TableId id;
    std::vector<float> values;
    Buffer gradient;  // zeros
  };
  BufferPool pool{Bytes(0)};
  std::vector<Table> tables;
  Buffer longest;  // zeros
};

/// A store for a worker that does not learn: it pushes and reads as a HostStore does, and takes no
/// memory.
class CostStore final : public ValueStore {
 public:
  /// memory  outlives the store
  CostStore(Client& client, const ServedOptions& options, CostMemory& memory)
      : client_(client), options_(options), memory_(memory) {}

  std::span<float> fresh(TableId table) override { return of(table).values; }
  void bring(TableId /*table*/) override {}
  DeviceSpan<const float> front(TableId table) const override;
  DeviceSpan<float> gradient(TableId table) override;
  void publish(TableId table, Clock clock) override;
  void finish_clock(Clock clock) override;

 private:
  [[nodiscard]] CostMemory::Table& of(TableId table) const { return memory_.tables[table.value()]; }
  [[nodiscard]] bool sends_at_once() const;
  void send(TableId table, Clock clock);

  Client& client_;
  const ServedOptions options_;
  CostMemory& memory_;
  std::vector<TableId> unsent_;
};

}  // namespace taut::lab
