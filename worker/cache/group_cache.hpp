#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/math/update_rule.hpp"
#include "common/ssp/push_schedule.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/cache/staged_gradients.hpp"
#include "worker/collective/rank_endpoint.hpp"
#include "worker/collective/replica_group.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// Parameters of a worker that sums gradients with the other workers, without servers: all have the
/// same values, and each applies the rule to the mean of the gradients. A sum starts when backward
/// has completed its gradients, or once a device's are copied; a clock ends when all sums have.
///
/// At the end of an interval the workers meet at the servers, as averaging workers do: each pushes
/// its change since the last meeting, and continues from the mean, which except for rounding equals
/// its own values. So the servers have the values that joiners, followers and checkpoints need.
///
/// With a graph (gossip) each worker has its own parameters instead: the neighbours' are averaged
/// into them at each clock, and then the rule is applied to the worker's own gradient, which was
/// computed before. At a meeting all continue from the mean of all. Without a common clock each
/// average is of two workers, and a worker loses those it makes while it waits at a meeting.
class GroupCache final : public ParameterCache, private collective::ReplicaValues {
 public:
  struct Options {
    Clock start;  // the first clock
    math::UpdateRule rule;
    PushSchedule schedule;      // of meetings
    Duration wait{60'000'000};  // the longest silence of a shard that owes an answer
    collective::ReplicaGroup::Options group;
  };

  /// Opens the tables at the shards and starts reading them.
  /// rank      where the others reach this worker
  /// board     outlives the cache
  /// Errors    as Client::open
  [[nodiscard]] static Result<std::unique_ptr<GroupCache>> open(
      Client& client, Backend& backend, const std::vector<TableSpec>& tables, Options options,
      collective::RankEndpoint rank, collective::RankBoard& board);

  /// Closes the client, whose thread writes into the shared values.
  ~GroupCache() override { client_.close(); }

  void compute_on(std::size_t replica, Stream& stream) override;
  Result<Clock> begin_clock(Clock clock) override;
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<void> flush(Duration wait) override;
  std::vector<std::vector<float>> own_state(Clock clock) override;
  bool restore(std::vector<std::vector<float>> own) override;
  Client::Traffic traffic() const override;
  Disagreement disagreement() const override;
  /// As collective::ReplicaGroup::work().
  void work() { group_->work(); }
  const StalenessHistogram& staleness() const override { return local_.staleness(); }

 private:
  struct Table {
    TableSpec spec;
    HostBuffer shared;                  // as of the last meeting; written by the client's thread
    std::optional<Clock> pending_read;  // its clock
  };
  /// Values, or an array of the rule's state, of a table.
  struct Array {
    TableId table;
    std::optional<std::size_t> state;  // nullopt: the values
  };

  GroupCache(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
             Options options, collective::RankEndpoint rank, collective::RankBoard& board);

  std::vector<std::size_t> gradient_sizes() const override;
  void read_gradient(std::size_t table, std::span<float> into) override;
  void write_gradient(std::size_t table, std::span<const float> mean) override;
  void write_no_gradient(std::size_t table) override;
  void read_values(std::size_t table, std::span<float> into) override;
  void write_mixed(std::size_t table, std::span<const float> before,
                   std::span<const float> mixed) override;
  std::vector<std::size_t> array_sizes() const override;
  void read_array(std::size_t array, std::span<float> into) override;
  void write_array(std::size_t array, std::span<const float> values) override;
  Result<void> begin() override;

  [[nodiscard]] Result<void> train_clock();
  [[nodiscard]] Result<void> complete();
  [[nodiscard]] Result<void> meet();
  [[nodiscard]] Result<void> push(Table& table, Clock clock);
  void take_shared();
  [[nodiscard]] double squared_distance(Table& table);
  [[nodiscard]] Result<bool> await_read(Table& table);
  [[nodiscard]] Result<void> await_reads();

  Client& client_;
  Backend& backend_;
  const Options options_;
  LocalCache local_;
  std::unique_ptr<Stream> own_stream_;  // until compute_on() names another one
  Stream* compute_;
  std::vector<Table> tables_;
  std::vector<std::size_t> summed_;  // tables that are not frozen
  std::vector<Array> arrays_;
  std::vector<float> own_;  // a table's values, on the host
  std::vector<float> gradient_;
  std::optional<StagedGradients> staged_;  // where gradients of a device are summed
  std::optional<double> from_mean_;        // at the last meeting
  collective::RankBoard& board_;
  collective::RankEndpoint rank_;
  collective::Standing standing_;
  std::optional<Clock> pushed_;  // the last meeting
  bool has_joined_ = false;
  bool is_complete_ = true;  // the clock before `standing_.next`
  // Last, as it uses the others.
  std::optional<collective::ReplicaGroup> group_;  // set by the constructor
};

}  // namespace taut
