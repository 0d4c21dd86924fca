#pragma once

#include <vector>

#include "common/ssp/table.hpp"
#include "worker/cache/value_store.hpp"
#include "worker/client/client.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The values of a device that shares the host's memory: nothing is copied. Each table has two
/// buffers; the compute reads one while the client writes the other, and bring() swaps them.
/// Gradients are computed in the client's buffers.
class HostStore final : public ValueStore {
 public:
  /// REQUIRES: a backend that shares the host's memory.
  /// client  outlives this
  HostStore(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
            const ServedOptions& options);

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
    DeviceBuffer front;  // read by the compute
    DeviceBuffer back;   // written by the client's thread
    Buffer gradient;     // of the current clock; none before gradient() and after it was sent
  };

  [[nodiscard]] bool sends_at_once() const {
    return options_.overlap && options_.norm != math::UpdateNorm::kGradient;
  }
  [[nodiscard]] float gradient_norm() const;
  void send(Table& table, Clock clock, float norm);

  Client& client_;
  const ServedOptions options_;
  std::vector<Table> tables_;
};

}  // namespace taut
