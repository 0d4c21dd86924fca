#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lab/contract/history.hpp"
#include "lab/contract/slice_oracle.hpp"
#include "lab/losses/promises.hpp"
#include "lab/rows/row_reads.hpp"
#include "lab/toy_job.hpp"

namespace taut::sim {

/// Reads a history and finds the first place where it breaks the consistency contract (section 2 of
/// the design). It knows the toy job and what the coordinator published, but not how shards or
/// clients work.
///
/// At the shards   every request is answered according to the contract, and as soon as possible: an
///                 oracle of each slice follows the shard's requests (slice_oracle.hpp); an update
///                 that a shard promises to outlive it is in every later primary
///                 (losses/promises.hpp)
/// At the workers  every table holds the updates that its clock and slack require, worker by worker
///                 and slice by slice; an update that was seen once is never missing later, and
///                 every update was pushed by some worker
/// At the end      what was pushed and not lost has been applied once, everywhere; members that
///                 share a batch by their speeds have drawn each record of it once
class Checker {
 public:
  /// trace  called with every event before it is checked; may be empty
  explicit Checker(const ToyJob& job, std::function<void(const Event&)> trace = {})
      : job_(job), trace_(std::move(trace)) {}

  /// Servers are killed: a worker that trains without backups of its shards may have to give up.
  void expect_lost_servers() { servers_are_lost_ = true; }
  /// An update counts once its shard's backup has it too: the loss of a primary and its worker does
  /// not lose it.
  void expect_logged_updates() { logs_updates_ = true; }
  /// Answers to pushes and reads may wait for backups, so shards' answers are not modeled; workers'
  /// reads are still checked.
  void expect_late_answers() { answers_late_ = true; }

  /// Checks the next part of the history.
  void take(const History& history);
  [[nodiscard]] const std::optional<Broken>& broken() const { return broken_; }
  /// The number of reads that were checked at the workers.
  [[nodiscard]] std::uint64_t reads() const { return reads_; }
  /// The number of checkpoint slices that were checked.
  [[nodiscard]] std::uint64_t captured() const { return captured_; }

 private:
  using SliceKey = std::pair<std::uint32_t, std::uint32_t>;  // table, slice
  struct ShardSide {
    std::optional<Contract> contract;
    std::set<std::uint32_t> known;                    // every member that it knows
    std::map<std::uint64_t, std::int64_t> confirmed;  // by the bounded followers of the contract
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<SliceOracle>> slices;
    std::vector<SliceOracle*> touched;
    std::set<PeerId> greeted;
    // Slices that moved to or from this shard. Their events at this shard are not modelled, but the
    // reads of them that workers receive are still checked.
    std::set<std::pair<std::uint32_t, std::uint32_t>> moved;
    bool open = false;
    bool forgotten = false;  // the job is over
  };
  struct OpenRead {
    std::int64_t clock = 0;
    std::int64_t slack = 0;  // the largest in force at any shard since the request
  };
  struct WorkerSide {
    std::int64_t join = 0;
    std::int64_t next_push = 0;
    bool finished = false;
    std::map<std::uint32_t, std::int64_t> pushed;  // the next clock, by table
    std::map<std::uint32_t, std::int64_t> pushes;  // their number, by table
    std::map<std::uint32_t, OpenRead> reading;     // by table
    std::map<std::uint32_t, std::int64_t> version;
    std::map<std::uint32_t, std::vector<float>> seen;  // by table
    RowReads rows;
  };

  [[nodiscard]] std::optional<Broken> next(const Event& event, const History& history);
  [[nodiscard]] std::optional<Broken> next_at_shard(const Event& event, const History& history);
  SliceOracle& oracle(ShardSide& shard, TableId table, SliceId slice);
  static void give_away(ShardSide& shard, const SliceKey& key);
  void take_over(const Event& event);
  [[nodiscard]] bool is_of_moved(const ShardSide& shard, const Event& event,
                                 const History& history);
  [[nodiscard]] std::optional<Broken> take_view(ShardSide& shard, const pb::ServerJob& view);
  [[nodiscard]] std::optional<Broken> check_missed(const ShardSide& shard,
                                                   const Event& event) const;
  [[nodiscard]] std::optional<Broken> check_cut(const Contract& contract);

  // check_followers.cpp
  static void limit_reads(ShardSide& shard);
  [[nodiscard]] std::optional<Broken> take_confirmation(ShardSide& shard, const Event& event);
  [[nodiscard]] std::int64_t kept_for_sure(TableId table, std::uint32_t slice,
                                           std::uint32_t member) const;
  void note_answered(const ShardSide& shard, const Event& event);
  [[nodiscard]] bool was_due(const SliceKey& slice, std::int64_t version,
                             std::uint32_t member) const;
  [[nodiscard]] std::optional<Broken> check_model(const Event& event,
                                                  std::span<const float> values);

  // check_workers.cpp
  [[nodiscard]] std::optional<Broken> next_at_worker(const Event& event, const History& history);
  [[nodiscard]] std::optional<Broken> check_accepted(const Event& event, WorkerSide& worker);
  [[nodiscard]] std::optional<Broken> check_read(const Event& event, const History& history);
  [[nodiscard]] std::optional<Broken> check_holdings(const Event& event, const OpenRead& read,
                                                     std::span<const float> values,
                                                     std::uint32_t slice);
  /// As check_holdings(), with backup workers: the read holds enough updates, from any workers.
  [[nodiscard]] std::optional<Broken> check_counted(const Event& event,
                                                    std::span<const float> values,
                                                    std::uint32_t slice);
  /// The least number of updates in the aggregates of the clocks up to `version`.
  [[nodiscard]] double required_until(std::int64_t version, const SliceKey& slice) const;

  // check_shares.cpp
  /// Checks that an update is weighted by its worker's part of the batch.
  [[nodiscard]] std::optional<Broken> check_weight(const Event& request) const;
  /// Checks that the members' parts of each clock's batch do not overlap and leave nothing out.
  [[nodiscard]] std::optional<Broken> check_parts() const;

  // check_end.cpp
  [[nodiscard]] std::optional<Broken> check_end(const Event& event);
  [[nodiscard]] double counted_each() const;
  [[nodiscard]] std::optional<Broken> check_moved_at_end() const;
  [[nodiscard]] std::optional<Broken> check_counted_at_end() const;

  // check_rows.cpp
  /// Checks that rows arrive as a shard sent them, and that those that count their updates hold
  /// what clock and slack require.
  [[nodiscard]] std::optional<Broken> check_rows(const Event& event, const History& history,
                                                 const OpenRead& read);
  [[nodiscard]] std::optional<Broken> check_row(const Event& event, const OpenRead& read,
                                                std::uint64_t row, float value);
  /// A bucket in BSP once all updates below a clock are applied; nullptr if unknown.
  [[nodiscard]] const RowModel* expected_in_bsp(const SliceKey& key, std::int64_t clock);
  [[nodiscard]] std::optional<Broken> check_rows_at_end(const SliceOracle& slice,
                                                        const SliceKey& key) const;
  [[nodiscard]] std::optional<Broken> check_moved_rows(const SliceKey& key,
                                                       std::span<const float> values) const;
  [[nodiscard]] std::optional<Broken> check_all_pushed(const SliceKey& key,
                                                       const std::vector<std::uint64_t>& rows,
                                                       std::span<const float> values) const;
  void note_rows(const Event& event, const History& history);

  const ToyJob job_;
  Promises promises_{job_};
  const std::function<void(const Event&)> trace_;
  std::map<std::uint32_t, ShardSide> shards_;
  std::map<SliceKey, std::uint32_t> moved_to_;           // the newest host of a slice
  std::map<SliceKey, std::vector<float>> moved_values_;  // its newest snapshot there
  std::map<std::uint32_t, WorkerSide> workers_;
  std::map<SliceKey, std::vector<RowModel>> in_bsp_;  // of buckets, by clock
  // The worker at each connection of a shard.
  std::map<std::pair<std::uint32_t, PeerId>, std::uint32_t> reader_of_;
  std::map<std::uint64_t, std::int64_t> taken_;  // the newest version of each follower's program
  // If servers may be lost: by slice and version, the members that a shard knew of when it answered
  // a follower; after several answers, those known at all of them.
  std::map<SliceKey, std::map<std::int64_t, std::set<std::uint32_t>>> answered_;
  struct Part {
    std::uint32_t first = 0;
    std::uint32_t records = 0;
  };
  std::map<std::int64_t, std::map<std::uint32_t, Part>> parts_;  // by clock and worker
  bool servers_are_lost_ = false;
  bool logs_updates_ = false;
  bool answers_late_ = false;
  Contract newest_;
  std::uint64_t newest_revision_ = 0;
  std::optional<Broken> broken_;
  std::uint64_t reads_ = 0;
  std::uint64_t captured_ = 0;
};

}  // namespace taut::sim
