#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/client/client.hpp"
#include "worker/engine/device_memory.hpp"
#include "worker/engine/stream.hpp"

namespace taut {

/// How far apart workers' parameters are, where they may differ. Lengths are squared, of all
/// trained parameters together.
struct Disagreement {
  /// Just before the last meeting at the servers: from the mean of all workers' parameters to this
  /// worker's. Its mean over the workers is the consensus error.
  std::optional<double> from_mean{};
  /// At the start of the last clock whose exchange has ended: the sum over the neighbours j of
  /// W_ij |x_j - x_i|^2.
  std::optional<double> from_neighbours{};
};

/// The parameters as the compute sees them: values in device memory with a version, and a place for
/// the gradient that backward computes. They are local or from a parameter server.
///
/// A replica is one copy of the net that computes on its own batch; each calls acquire() and
/// publish() once for every table and clock.
/// Thread    the compute thread
class ParameterCache {
 public:
  ParameterCache() = default;
  ParameterCache(const ParameterCache&) = delete;
  ParameterCache& operator=(const ParameterCache&) = delete;
  virtual ~ParameterCache() = default;

  /// The clock to compute next: `clock`, or a later one if those in between are over without this
  /// worker (backup workers). acquire() is then called for the later one.
  /// Errors    as acquire()
  [[nodiscard]] virtual Result<Clock> begin_clock(Clock clock) { return clock; }

  /// The stream on which a replica computes with the values and writes its gradients: set once,
  /// before the first acquire(); it outlives the cache's work. Replicas on one device share a
  /// stream.
  virtual void compute_on(std::size_t /*replica*/, Stream& /*stream*/) {}

  /// Names the rows of a replica's batch of `clock`, of a table that is kept by rows. Call it once,
  /// before acquire(), which then returns these rows' values in this order, followed by zeros. Only
  /// these rows' gradients are sent.
  /// rows      ascending; at most as many as the net's parameter has
  /// Errors    invalid: more of them than one read or update may name
  [[nodiscard]] virtual Result<void> name_rows(std::size_t /*replica*/, TableId /*table*/,
                                               Clock /*clock*/,
                                               std::span<const std::uint64_t> /*rows*/) {
    TAUT_CHECK(false, "only servers keep tables by rows");
    return ok();
  }

  /// The tables' values for `clock`, on the replica's device; the first call of a clock may
  /// wait.
  /// Errors    timeout, stale, mismatch, closed: as Client::wait
  [[nodiscard]] virtual Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table,
                                                                Clock clock) = 0;

  /// Where a replica writes its gradient of a table at this clock; valid until publish().
  [[nodiscard]] virtual DeviceSpan<float> gradient(std::size_t replica, TableId table) = 0;

  /// The gradient is complete: pushes it and reads the values for the next clock. If the solver
  /// clips, both happen in finish_clock().
  virtual void publish(std::size_t replica, TableId table, Clock clock) = 0;

  /// A replica has published all its tables.
  virtual void finish_clock(std::size_t replica, Clock clock) = 0;

  /// A copy of the newest values of a table, and their version. Waits for no worker.
  [[nodiscard]] virtual Result<Clock> snapshot(TableId table, std::span<float> into) = 0;
  /// snapshot() of rows of a table that is kept by rows.
  /// into  [rows, width], in the order of `rows`
  [[nodiscard]] virtual Result<Clock> snapshot_rows(TableId /*table*/,
                                                    std::span<const std::uint64_t> /*rows*/,
                                                    std::span<float> /*into*/) {
    TAUT_CHECK(false, "only servers keep tables by rows");
    return Clock(0);
  }

  /// Waits until everything published has arrived.
  [[nodiscard]] virtual Result<void> flush(Duration wait) = 0;

  /// The training state that only this worker has between two clocks, for its part of checkpoints:
  /// arrays in an order that the cache defines; empty if it has none. `clock` is the next one.
  [[nodiscard]] virtual std::vector<std::vector<float>> own_state(Clock /*clock*/) { return {}; }
  /// Restores own_state() before the first clock. False if it is of other tables or another rule.
  // Overrides keep it. NOLINTNEXTLINE(performance-unnecessary-value-param)
  [[nodiscard]] virtual bool restore(std::vector<std::vector<float>> /*own*/) { return false; }

  /// Payload bytes to and from a server.
  [[nodiscard]] virtual Client::Traffic traffic() const { return {}; }

  /// How far this worker's parameters are from others'; empty if all have the same.
  [[nodiscard]] virtual Disagreement disagreement() const { return {}; }

  /// How stale the values of acquire() were.
  [[nodiscard]] virtual const StalenessHistogram& staleness() const = 0;
};

}  // namespace taut
