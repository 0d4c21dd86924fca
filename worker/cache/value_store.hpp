#pragma once

#include <cstddef>
#include <map>
#include <span>

#include "common/math/update_rule.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"
#include "worker/engine/stream.hpp"

namespace taut {

/// What a cache in front of a parameter server does, and when.
struct ServedOptions {
  Clock start;  // the first clock
  /// The norm that each update carries. One of the whole gradient is known only after backward, so
  /// the updates are then sent together.
  math::UpdateNorm norm = math::UpdateNorm::kNone;
  bool overlap = true;      // each update is sent while the rest of backward still runs
  bool catches_up = false;  // skips clocks that are over: the job has backup workers
  std::map<TableId, std::size_t> batch_rows = {};  // the most that a batch names, of tables by rows
  Duration wait{60'000'000};  // the longest silence of a shard that owes an answer
};

/// Where a served cache stores the values of its tables, and where their gradients are computed. A
/// table has values in front, which the compute reads, and a place for fresh ones, which the client
/// writes. Those that are kept by rows are not stored here.
/// Errors    DeviceError
/// Thread    the compute thread
class ValueStore {
 public:
  ValueStore() = default;
  ValueStore(const ValueStore&) = delete;
  ValueStore& operator=(const ValueStore&) = delete;
  virtual ~ValueStore() = default;

  /// start() is called once the client has opened the tables, stop() before it closes: after stop()
  /// the store does not use the client.
  virtual void start() {}
  virtual void stop() noexcept {}

  /// As ParameterCache::compute_on.
  virtual void compute_on(Stream& /*stream*/) {}

  /// Where the client writes a table's fresh values.
  [[nodiscard]] virtual std::span<float> fresh(TableId table) = 0;
  /// Puts the fresh values in front. REQUIRES: they are complete.
  virtual void bring(TableId table) = 0;
  /// The values in front, until the next bring() of the table.
  [[nodiscard]] virtual DeviceSpan<const float> front(TableId table) const = 0;

  /// Where the compute writes a table's gradient, until publish().
  [[nodiscard]] virtual DeviceSpan<float> gradient(TableId table) = 0;
  /// The gradient is complete: pushes it and reads the next values into fresh(), now or at the
  /// latest in finish_clock().
  virtual void publish(TableId table, Clock clock) = 0;
  virtual void finish_clock(Clock clock) = 0;

  /// Errors    unavailable: a gradient was lost, so that its table's next values never arrive
  [[nodiscard]] virtual Result<void> check() const { return ok(); }
  /// Waits until every published gradient is pushed. Errors: timeout, and check()'s.
  [[nodiscard]] virtual Result<void> drain(Duration /*wait*/) { return ok(); }
};

}  // namespace taut
