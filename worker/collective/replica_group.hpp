#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/shared_arena.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/time_source.hpp"
#include "common/types.hpp"
#include "worker/collective/algorithms.hpp"
#include "worker/collective/all_reduce_group.hpp"
#include "worker/collective/gossip_graph.hpp"
#include "worker/collective/gossip_mix.hpp"
#include "worker/collective/rank_board.hpp"
#include "worker/collective/replica_values.hpp"

namespace taut::collective {

/// How far a rank's parameters have been trained.
struct Standing {
  Clock next;            // the first clock that they lack
  bool has_met = true;   // the meeting at the end of the previous clock, if any, is over
  bool is_fresh = true;  // no parameters yet; `next` is this rank's first clock
  // The clock at which the rule's state was zero, by the number of its applications since then.
  Clock state_from{};
  auto operator<=>(const Standing&) const = default;
};

/// GroupOptions::early of a group: what other ranks may send of exchanges before this rank begins
/// them, in addition to the default for everything else.
///
/// If gradients are summed, each rank sends at most the model once until this one adds its part.
/// With a graph each sender has begun at most one clock more than this rank, as it waits for this
/// one's model of the previous clock; if edges are directed (kExponential), a path from this rank
/// to it has at most log2(ranks) edges, and each adds a clock.
/// graph  nullopt: the ranks sum
/// model  bytes of all tables that are exchanged
[[nodiscard]] Bytes early_limit(std::optional<Graph> graph, Rank own, std::uint32_t ranks,
                                Bytes model);

/// A worker's place among workers that have the same parameters: they sum their gradients at each
/// clock, and each applies the rule.
///
/// When ranks join or leave, the coordinator updates the board and all ranks form a new group, in
/// which each reports its clock; those that are new, or behind (by at most one clock), take the
/// parameters of the furthest one. So every clock is applied either everywhere or nowhere, and a
/// broken sum is begun again with the gradients of the remaining ranks.
///
/// A new rank may be in the group before its own first clock: until then it adds nothing, and
/// applies what the others add.
///
/// With Options::graph each rank has its own parameters instead: at every clock it averages them
/// with its neighbours' and then applies its own gradient (D-PSGD). Ranks that are far apart in the
/// graph may then be several clocks apart; in a new group those that are behind continue at the
/// clock of the furthest one, with their own parameters, and drop what they had of the clocks in
/// between. A new rank takes the parameters of the furthest.
///
/// With Options::asynchronous the ranks have no common clock: each average is of two ranks
/// (AD-PSGD), and each rank has its own clock; between two meetings these drift apart as the ranks'
/// speeds differ. Call set_values() after any other change of the parameters.
/// Thread    one, except for work(), which the group's own thread calls with Options::has_thread
class ReplicaGroup {
 public:
  struct Options {
    std::uint64_t job = 0;  // distinguishes jobs
    Clock first;            // of this rank
    Algorithm algorithm = Algorithm::kRing;
    std::optional<Graph> graph{};  // over which the ranks average; nullopt: they sum
    bool asynchronous = false;     // with a graph: one neighbour at a time, no common clock
    std::uint64_t seed = 1;        // of the choice of that neighbour
    std::shared_ptr<SharedArena> shared_memory;  // nullptr: values travel as bytes
    Bytes bucket = Bytes(1UL << 20U);            // gradients are summed together up to this
    /// After this long without a message a group is formed again, as messages may be lost. A rank
    /// that computes for longer is waited for; one that is not even reached for this long ends the
    /// exchange.
    Duration limit{60'000'000};
    /// If the ranks have changed, a sum that makes no progress for this long is given up.
    Duration patience{300'000};
    std::function<bool()> stops;         // ends all waits; may be empty
    TimeSource* time = &machine_time();  // outlives the group
    /// The group's own thread continues sums and answers others while this rank computes. If false,
    /// work() must be called whenever the endpoint has messages or this rank computes.
    bool has_thread = true;
  };

  /// values, board, endpoint  outlive the group
  ReplicaGroup(ReplicaValues& values, RankBoard& board, Endpoint& endpoint, Options options);
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  /// Forms the group of the newest ranks, and again until all of them are in it. Returns this
  /// rank's standing, which all have then unless Options::asynchronous.
  /// Errors    closed: it stops; mismatch: another rank is set up differently; timeout: another
  ///           cannot be reached; and those of ReplicaValues::begin
  [[nodiscard]] Result<Standing> join(Standing own);

  /// With a graph: the parameters have been changed by the rule, a meeting or join().
  void set_values();

  /// Starts the next clock: with a graph, the neighbours get this rank's parameters meanwhile.
  void begin_clock();

  /// A gradient of the next clock is complete. Its sum may begin.
  void publish(std::size_t table);

  /// Ends the exchange of a clock, forming new groups if necessary. Gradients become the mean over
  /// the ranks that computed it; with a graph, parameters the average with the neighbours'. Returns
  /// false if this rank received the parameters after that clock, or continues at a later one.
  /// own  its standing, before and after
  /// Errors    as join()
  [[nodiscard]] Result<bool> exchange(Standing& own);

  /// With a graph: how far the neighbours' parameters were from this rank's at its last exchange,
  /// as GossipMix::distance().
  [[nodiscard]] std::optional<double> distance() const;

  /// After a meeting: sends the meeting's result to ranks that missed it; does nothing if none did.
  /// If has_met is false afterwards, the ranks have changed: those that were in the meeting take
  /// its result again, and call this again.
  /// clock     of the meeting
  /// Errors    as join()
  [[nodiscard]] Result<void> spread_meeting(Standing& own, Clock clock);

  /// Whether the ranks have changed, so that some may wait for this one to join().
  [[nodiscard]] bool has_news() const { return board_.number() > number_; }
  /// Whether this rank takes part in a clock with a gradient.
  [[nodiscard]] bool computes(Clock clock) const { return clock >= options_.first; }

  /// Waits until others have what this rank has sent, but only briefly: they may be gone.
  void leave();

  /// Continues sums and answers pending requests, unless another call is under way. Does not wait.
  /// Thread: any.
  void work();

  struct Traffic {
    std::uint64_t sent = 0;  // bytes of values
  };
  [[nodiscard]] Traffic traffic() const;

 private:
  struct Bucket {
    std::vector<std::size_t> tables;
    std::size_t count = 0;  // elements; in the last bucket one more, the weight
    Buffer values;
    std::optional<AllReduceGroup::SumId> sum{};
  };
  struct Member {
    Standing standing;
    Clock first;
  };

  /// The lock of a call that may wait for others.
  class Use {
   public:
    explicit Use(ReplicaGroup& group) : lock_(group.mutex_), is_used_(group.is_used_) {
      is_used_ = true;
    }
    ~Use() { is_used_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const std::scoped_lock<std::mutex> lock_;
    std::atomic<bool>& is_used_;
  };

  void make_buckets();
  [[nodiscard]] Result<void> begin(Bucket& bucket, bool adds);
  [[nodiscard]] Result<void> begin_published();
  [[nodiscard]] Result<void> finish_sums(bool adds);
  [[nodiscard]] Result<void> finish_mix();
  void take_mean();
  void forget_sums();
  void retire();
  [[nodiscard]] bool has_begun() const { return mix_ ? mix_->has_begun() : begun_ > 0; }
  [[nodiscard]] bool is_behind(const Standing& one, const Standing& target) const;
  [[nodiscard]] Standing target_of(const Standing& own, Standing furthest) const;
  void work_until_end();
  [[nodiscard]] Result<Standing> regroup(Standing own);
  [[nodiscard]] Result<void> wait_for_news();
  [[nodiscard]] Result<Standing> form(Standing own, Duration limit);
  [[nodiscard]] Result<std::vector<Member>> agree(Standing own);
  [[nodiscard]] Result<Standing> settle(Standing own, const std::vector<Member>& members);
  [[nodiscard]] Result<void> spread(std::uint32_t holder, bool needs);
  [[nodiscard]] bool stops() const { return options_.stops && options_.stops(); }
  [[nodiscard]] Error stopped() const;
  [[nodiscard]] const char* what() const {
    return mix_ ? "workers that average among themselves" : "workers that sum among themselves";
  }

  ReplicaValues& values_;
  RankBoard& board_;
  Endpoint& endpoint_;
  const Options options_;
  BufferPool pool_;
  std::vector<std::size_t> gradients_;  // elements
  std::vector<Bucket> buckets_;         // in the order in which backward completes them
  std::vector<bool> published_;         // by table, of this clock
  std::size_t begun_ = 0;               // buckets
  std::unique_ptr<GossipMix> mix_;      // with a graph, in place of the buckets
  std::unique_ptr<AllReduceGroup> group_;
  bool has_connected_ = false;  // the group
  /// A group that was given up, until all its ranks have given it up.
  struct Retired {
    std::unique_ptr<AllReduceGroup> group;
    std::vector<Buffer> values;
  };
  std::vector<Retired> retired_;
  bool is_broken_ = true;
  bool is_final_ = false;  // what failed would fail again
  std::uint64_t number_ = 0;
  std::uint32_t own_ = 0;  // rank
  std::size_t ranks_ = 0;
  std::vector<Clock> firsts_;  // by rank
  TimePoint waits_since_;      // for the sums of a clock
  std::uint64_t sent_before_ = 0;
  std::vector<float> scratch_;
  mutable std::mutex mutex_;           // held while either thread uses any of these
  std::atomic<bool> is_used_ = false;  // by a call that may wait, in which work() may be called
  std::atomic<bool> ends_ = false;
  std::thread works_;  // with Options::has_thread
};

}  // namespace taut::collective
