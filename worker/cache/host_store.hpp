#pragma once

#include <memory>
#include <vector>

#include "common/ssp/table.hpp"
#include "worker/cache/value_memory.hpp"
#include "worker/cache/value_store.hpp"
#include "worker/client/client.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The values of a device that shares the host's memory: nothing is copied. The compute reads a
/// table's values in front while the client writes the fresh ones. Gradients are computed in the
/// client's buffers.
class HostStore final : public ValueStore {
 public:
  /// REQUIRES: a backend that shares the host's memory.
  /// client  outlives this
  HostStore(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
            const ServedOptions& options);
  /// Overload that keeps the values in `memory`.
  HostStore(Client& client, const std::vector<TableSpec>& tables, const ServedOptions& options,
            std::unique_ptr<ValueMemory> memory);

  std::span<float> fresh(TableId table) override;
  void bring(TableId table) override;
  DeviceSpan<const float> front(TableId table) const override;
  DeviceSpan<float> gradient(TableId table) override;
  void publish(TableId table, Clock clock) override;
  void finish_clock(Clock clock) override;

 private:
  struct Table {
    TableId id;
    bool is_trained = true;
    Buffer gradient;  // of the current clock; empty before gradient() and after it was sent
  };

  [[nodiscard]] bool sends_at_once() const {
    return options_.overlap && options_.norm != math::UpdateNorm::kGradient;
  }
  [[nodiscard]] float gradient_norm() const;
  void send(Table& table, Clock clock, float norm);

  Client& client_;
  const ServedOptions options_;
  std::vector<Table> tables_;
  const std::unique_ptr<ValueMemory> memory_;
};

}  // namespace taut
