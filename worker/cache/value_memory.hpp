#pragma once

#include <span>
#include <vector>

#include "common/ssp/table.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// Where the values of a worker's tables are in host memory: in front, where the compute reads
/// them, and fresh, where the client writes the next ones.
class ValueMemory {
 public:
  ValueMemory() = default;
  ValueMemory(const ValueMemory&) = delete;
  ValueMemory& operator=(const ValueMemory&) = delete;
  virtual ~ValueMemory() = default;

  /// Where a table's fresh values are written, until the next bring(). The values in front are not
  /// used between this call and that.
  [[nodiscard]] virtual std::span<float> fresh(TableId table) = 0;
  /// Puts the fresh values in front.
  virtual void bring(TableId table) = 0;
  [[nodiscard]] virtual DeviceSpan<const float> front(TableId table) const = 0;
};

/// Two buffers for each table, which bring() swaps.
class TwoBuffers final : public ValueMemory {
 public:
  /// REQUIRES: a backend that shares the host's memory.
  TwoBuffers(Backend& backend, const std::vector<TableSpec>& tables);

  std::span<float> fresh(TableId table) override;
  void bring(TableId table) override;
  [[nodiscard]] DeviceSpan<const float> front(TableId table) const override;

 private:
  struct Table {
    DeviceBuffer front;  // read by the compute
    DeviceBuffer back;   // written by the client's thread
  };
  std::vector<Table> tables_;
};

}  // namespace taut
