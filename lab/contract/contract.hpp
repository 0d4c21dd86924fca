#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lab/toy_compression.hpp"
#include "lab/toy_policies.hpp"
#include "proto/control.pb.h"

namespace taut::sim {

/// A clock that no run reaches: an unknown leave, an unbounded slack, the last read where no
/// follower limits reads.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// The first violation of the contract.
struct Broken {
  std::string rule;  // bound, own write, order, once, fenced, release, answer, bits, end, ...
  std::string what;
};

/// What the coordinator published about a job, in the contract's terms.
struct Contract {
  struct Member {
    std::uint64_t incarnation = 0;
    std::uint32_t slot = 0;
    std::int64_t join = 0;
    std::int64_t leave = 0;
    bool fenced = false;
  };
  std::map<std::uint32_t, Member> members;
  std::map<std::int64_t, bool> aggregated;  // from this clock on
  std::int64_t slack = 0;
  std::int64_t hold_from = 0;
  bool mean = false;
  std::uint64_t seed = 0;
  pb::Compression compression;
  // Policies.
  pb::Consistency policies;
  std::uint32_t backup_workers = 0;
  bool replicated = false;       // shards have backups
  std::uint64_t checkpoint = 0;  // the newest order's number; 0: none
  std::int64_t checkpoint_clock = 0;
  std::int64_t max_slack = 0;  // above 0: each read has a slack between `slack` and this
  std::int64_t interval = 1;   // clocks of which the last one is pushed
  std::int64_t end = 0;        // of the job; its last clock is pushed too, but by programs
  bool is_seeded = false;      // the updates of clock 0 are initial values
  bool balance = false;        // updates have weights

  std::uint32_t tables = 1;  // all of one size
  // The bounded followers, with what each had confirmed when it joined.
  std::map<std::uint64_t, std::int64_t> followers;
  std::int64_t follower_slack = 0;
  // At a shard: the last clock at which a read may be answered, given the followers' confirmations.
  std::int64_t last_read = 0;

  /// tables  the job's number of tables
  static Contract of(const pb::ServerJob& view, std::uint32_t tables);
  [[nodiscard]] bool is_seed(std::int64_t clock) const { return is_seeded && clock == 0; }
  /// The first clock whose updates are not initial values.
  [[nodiscard]] std::int64_t first_step() const { return is_seeded ? 1 : 0; }
  [[nodiscard]] bool aggregates_at(std::int64_t clock) const;
  /// Two members with the same slot at the same clock, so that both train on its part of the data;
  /// nullopt if there are none. Ignores lost members whose leave is unknown.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint32_t>> find_shared_slot() const;
  /// The number of members at this clock.
  [[nodiscard]] std::size_t count_at(std::int64_t clock) const;
  /// How many of `members` make an aggregate.
  [[nodiscard]] std::size_t quorum_of(std::size_t members) const;
  /// How many of a clock's members make its aggregate.
  [[nodiscard]] std::size_t quorum_at(std::int64_t clock) const;
  /// As quorum_at(), without members that were lost.
  [[nodiscard]] std::size_t staying_quorum_at(std::int64_t clock) const;
  [[nodiscard]] bool keeps_reads() const { return weighs(policies); }
  /// Whether a slice's values show how many updates of each worker they hold.
  [[nodiscard]] bool counts() const {
    return !mean && !balance && !keeps_reads() && keeps_counts(compression, end);
  }
  /// The slack of a read at this clock. Updates apply in the order of clocks, so a read shows its
  /// reader's own update only when every aggregate of an earlier clock has been made: in BSP, slack
  /// 0; after a change from BSP at clock K, never less than V >= K.
  [[nodiscard]] std::int64_t slack_at(std::int64_t clock) const { return slack_at(clock, slack); }
  /// The largest slack that a read may have.
  [[nodiscard]] std::int64_t widest_at(std::int64_t clock) const {
    return slack_at(clock, max_slack > 0 ? max_slack : slack);
  }
  /// The first clock from `clock` on at which members push a table.
  [[nodiscard]] std::int64_t next_push(std::int64_t clock, std::uint32_t table) const;
  /// The number of times that a member pushes a table in the clocks [from, until), without initial
  /// values.
  /// table  may be any where all are pushed together
  [[nodiscard]] std::int64_t pushes(std::int64_t from, std::int64_t until,
                                    std::uint32_t table = 0) const;
  /// The sum of the names of these updates: of their clocks, each plus one.
  [[nodiscard]] double names(std::int64_t from, std::int64_t count) const;
  /// Overload for a read under another slack.
  [[nodiscard]] std::int64_t slack_at(std::int64_t clock, std::int64_t under) const;
};

}  // namespace taut::sim
