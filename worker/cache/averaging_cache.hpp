#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/math/update_rule.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The tables of shared values of workers that apply the rule themselves: the multipliers belong to
/// that rule, and the shards sum without them.
[[nodiscard]] std::vector<TableSpec> specs_of_shared(std::vector<TableSpec> tables);

/// Parameters of a worker that trains locally and exchanges with the shared ones every few clocks:
/// periodic averaging (local SGD, federated averaging) and elastic averaging (EASGD). Its update
/// rule, with all of its state, runs here; the shards sum what workers push.
///
/// Periodic   at the end of an interval it pushes its change since it last took the shared values,
///            and continues from what the shards have made of all workers' changes: their mean, or
///            a step of an outer rule along it. Fragments of the tables do so in turn
/// Elastic    it reads the shared values, and both they and its own move towards each other by
///            moving_rate times their distance; it continues from its own
///
/// Running statistics are averaged at the shards at each exchange. The shared values are tested and
/// saved. The state of a worker's rule is never exchanged; with periodic exchange it is the
/// worker's part of checkpoints, with its values of tables that were not exchanged just before.
/// Source    averaging.hpp
class AveragingCache final : public ParameterCache {
 public:
  struct Options {
    Clock start;  // the first clock
    math::UpdateRule rule;
    Exchange exchange = Exchange::kPeriodic;
    float moving_rate = 0;  // kElastic; greater than 0
    PushSchedule schedule;
    Bytes budget{0};            // limit on the backend's device memory; 0: none
    Duration wait{60'000'000};  // the longest silence of a shard that owes an answer
  };

  /// Opens the tables at the shards and starts reading them.
  /// Errors    as Client::open
  [[nodiscard]] static Result<std::unique_ptr<AveragingCache>> open(
      Client& client, Backend& backend, const std::vector<TableSpec>& tables,
      const Options& options);

  /// Closes the client, whose thread writes into the shared values.
  ~AveragingCache() override { client_.close(); }

  void compute_on(std::size_t replica, Stream& stream) override {
    local_.compute_on(replica, stream);
  }
  Result<Clock> begin_clock(Clock clock) override;
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<void> flush(Duration wait) override;
  std::vector<std::vector<float>> own_state(Clock clock) override;
  bool restore(std::vector<std::vector<float>> own) override;
  Client::Traffic traffic() const override { return client_.traffic(); }
  const StalenessHistogram& staleness() const override { return client_.staleness(); }

 private:
  struct Table {
    TableSpec spec;
    PushSchedule schedule;
    HostBuffer shared;                  // as last read; written by the client's thread
    Clock next;                         // the first clock that was not pushed
    std::optional<Clock> pending_read;  // its clock
    std::optional<Clock> due;           // kElastic: of the push that waits for the read
    /// From a checkpoint between two meetings: its own values, and those that they started from.
    struct Between {
      std::vector<float> own;
      std::vector<float> shared;
    };
    std::optional<Between> between;  // until the first read
  };

  AveragingCache(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
                 const Options& options);
  [[nodiscard]] Result<void> settle(Table& table);
  void begin_from_shared(Table& table);
  void meet(Table& table, Clock clock);
  [[nodiscard]] Buffer update_of(Table& table);

  Client& client_;
  Backend& backend_;
  const Options options_;
  LocalCache local_;
  std::vector<Table> tables_;
  HostBuffer own_;  // a table's values, on the host; as large as the largest table
};

}  // namespace taut
