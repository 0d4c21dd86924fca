#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"
#include "proto/data_message.hpp"
#include "worker/follower/model.hpp"
#include "worker/follower/model_attempt.hpp"
#include "worker/follower/model_relay.hpp"

namespace taut {

/// How often a follower sends what, and after which silence it sends it again.
struct FollowerTimings {
  Duration report{1'000'000};  // between two reports to the coordinator
  Duration change{100'000};    // between two reports while it waits for the coordinator
  Duration probe{50'000};      // between two requests for the newest version
  Duration resend{1'000'000};  // silence after which a request is sent again
  // Silence after which a relaying follower is given up, and the limit for one that is at a version
  // that the servers do not have.
  Duration source_silence{2'000'000};
  // The limit for a relaying follower that is alive but sends nothing of what the servers have.
  // Longer than the first part of a slice takes through a chain of slow links.
  Duration source_stall{30'000'000};
  Duration avoid{60'000'000};  // how long it is then avoided
};

struct FollowerIdentity {
  JobId job;
  FollowerId id;
  std::string name;
  bool bounded = false;
  std::string address;  // where it passes models on; empty if it does not
};

/// What a follower must read.
struct Wish {
  Clock at_least;                            // this version or a later one
  std::optional<std::int64_t> max_behind{};  // clocks behind the newest when it is returned;
                                             // nullopt: at least the newest when it was wished
};

/// A reader that follows a job, as a state machine: it asks where the job is, gathers models of one
/// version from the servers' shards or from another follower, passes them on as they arrive, and,
/// if training waits for it, confirms what it has. No socket, thread or clock.
///
/// It chooses a version from those that the shards report, and requests it of every slice; if one
/// has passed it meanwhile, it chooses a later version, with a lead over the newest that grows
/// until requests arrive in time. No shard waits for a reader.
/// Thread    its owner's
class FollowerProtocol {
 public:
  enum class To : std::uint8_t { kCoordinator, kShard, kSource, kPeer };
  struct Outgoing {
    To to = To::kCoordinator;
    ShardId shard;  // kShard
    PeerId peer;    // kPeer
    std::variant<pb::ControlMessage, DataMessage> message;
  };
  /// A connection to make, in place of the previous one to the same side.
  struct Connection {
    To to = To::kShard;
    ShardId shard;
    std::string address;  // empty: none
  };

  FollowerProtocol(FollowerIdentity identity, FollowerTimings timings, BufferPool& pool,
                   std::uint64_t slice_elements = SliceLayout::kSliceElements);

  /// From now on gathers a model that fulfills this wish, which replaces the previous one.
  void wish(const Wish& wish, TimePoint now);
  void forget_wish() { wish_.reset(); }
  /// Returns the model that fulfills the wish, and forgets the wish; nullptr if there is none yet.
  /// A bounded follower confirms what it takes here.
  [[nodiscard]] std::shared_ptr<const Model> take();
  /// Why no wish can be fulfilled any more; nullopt if one may be.
  [[nodiscard]] std::optional<Error> failure() const;
  /// What a wish waits for, for the error message of a timeout.
  [[nodiscard]] std::string waits_for(TimePoint now) const;

  void handle(const pb::FollowReply& reply, TimePoint now);
  void handle(ShardId from, const DataMessage& message, TimePoint now);
  void handle_source(const DataMessage& message, TimePoint now);
  /// A request of a follower that this one passes models on to.
  void handle_peer(PeerId from, const DataMessage& message);
  void tick(TimePoint now);
  [[nodiscard]] std::vector<Connection> take_connections() {
    return std::exchange(connections_, {});
  }
  [[nodiscard]] std::vector<Outgoing> take_outgoing() { return std::exchange(outgoing_, {}); }
  /// The last report: it no longer follows.
  [[nodiscard]] pb::ControlMessage goodbye() const;

  /// Of the newest whole model; below 0 if there is none.
  [[nodiscard]] Clock version() const { return model_ ? model_->version : Clock(-1); }
  [[nodiscard]] Clock confirmed() const { return given_; }
  [[nodiscard]] bool has_joined() const { return joined_; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] pb::JobState state() const { return state_; }
  struct Traffic {
    std::uint64_t received = 0;
    std::uint64_t passed = 0;  // payload bytes
  };
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  struct Link {
    std::string address;
    std::uint64_t term = 0;
    bool greeted = false;
    std::optional<TimePoint> greeting;  // when it was sent
    std::optional<TimePoint> last_heard;
    std::optional<TimePoint> requested;  // for its versions, in this round
    std::optional<pb::Description> said;
    // When the newest round that it has answered began. Answers on a connection arrive in order:
    // what was requested before and has not arrived was lost, or waits there.
    std::optional<TimePoint> cleared;
    Clock reached{-1};  // the version that all of its slices had then
    Clock confirmed{-1};
    std::optional<TimePoint> confirming;
  };
  enum class Phase : std::uint8_t { kIdle, kProbing, kFetching };

  [[nodiscard]] DataMessage envelope() const;
  [[nodiscard]] DataMessage envelope_for_peer() const;
  void send(ShardId shard, DataMessage message);
  void report(TimePoint now);
  void take_shards(const pb::FollowReply& reply, TimePoint now);
  void reset_gathering(TimePoint now);
  void reset_freshness(TimePoint now);
  void forget_requests(ShardId shard);
  void take_source(const pb::FollowReply& reply, TimePoint now);
  void leave_source(TimePoint now);
  void greet(TimePoint now);
  void confirm(TimePoint now);
  void take_tables(const pb::Description& description);
  // follower_branches.cpp
  [[nodiscard]] std::uint64_t branch() const;
  [[nodiscard]] bool is_of_branch(const DataMessage& message);
  [[nodiscard]] bool may_be_mixed() const;
  void complete(TimePoint now);
  // follower_rounds.cpp
  [[nodiscard]] std::optional<Wish> next_wish() const;
  [[nodiscard]] Clock least(const Wish& wish) const;
  [[nodiscard]] bool is_fulfilled(const Wish& wish) const;
  void advance(TimePoint now);
  void ask(ShardId shard, Link& link, TimePoint now);
  void ask_source(TimePoint now);
  void note_round(Link& link, const pb::Description& description) const;
  [[nodiscard]] bool is_due(const ModelAttempt::Slice& slice, const Link& link,
                            TimePoint now) const;
  void probe(TimePoint now);
  void judge_round(TimePoint now);
  [[nodiscard]] bool is_stalled(Clock lowest, TimePoint now);
  [[nodiscard]] bool source_is_at_lost_version(bool is_above, TimePoint now);
  void choose(TimePoint now);
  void begin(Clock target, TimePoint now);
  void request(TimePoint now);
  void take_items(const DataItems& batch, bool from_source, TimePoint now);
  void take_value(const Slice& place, const DataItem& item, bool from_source, TimePoint now);
  void follow_source(Clock target, TimePoint now);
  void pass_on(const Slice& place, Clock version, const Frame& values, std::uint64_t filled);
  void finish();

  const FollowerIdentity identity_;
  const FollowerTimings timings_;
  BufferPool& pool_;
  const std::uint64_t slice_elements_;

  // As reported by the coordinator.
  pb::JobState state_ = pb::SUBMITTED;
  std::string message_;
  std::string hash_;
  Clock first_version_;
  bool joined_ = false;
  bool lingers_ = false;
  bool is_over_ = false;
  std::optional<Error> failure_;
  std::optional<TimePoint> reported_;
  std::optional<TimePoint> answered_;  // when the coordinator last answered
  bool is_urgent_ = true;
  std::uint64_t requests_ = 0;

  std::map<ShardId, Link> links_;
  std::vector<ShardId> shards_;
  std::shared_ptr<const std::vector<TableSpec>> tables_;
  SliceLayout layout_;
  FollowerId source_;  // 0: the servers
  std::string source_address_;
  std::optional<TimePoint> source_heard_;
  Link source_link_;  // its rounds
  FollowerId avoided_;
  TimePoint avoided_until_;

  std::optional<Wish> wish_;
  bool is_fresh_ = false;  // a round has begun and ended since the wish and the newest model
  TimePoint fresh_from_;
  std::optional<Clock> wished_newest_;  // the newest version when the wish was made
  bool has_last_ = false;  // the job has ended, and it has the last version or there is none
  Phase phase_ = Phase::kIdle;
  std::uint64_t round_ = 0;
  TimePoint next_round_;
  Clock newest_{-1};  // the newest version that any shard has reported
  std::uint64_t newest_branch_ = 0;
  std::int64_t lead_ = 0;
  std::int64_t in_time_ = 0;  // models in a row that were gathered at the first attempt
  std::optional<ModelAttempt> attempt_;
  TimePoint begun_;  // when the attempt at its current version was
  int resends_ = 0;  // in it: how often requests were repeated
  // Since when the servers have had the version and the source has sent nothing of it.
  std::optional<TimePoint> owed_since_;
  bool is_drawn_ = false;  // the source has moved it to a later version than was requested
  // Since when that has been one that the servers do not have.
  std::optional<TimePoint> misled_since_;
  TimePoint round_begun_;
  std::shared_ptr<const Model> model_;
  Clock given_{-1};  // the version that was taken last
  ModelRelay relay_;
  std::optional<TimePoint> aged_;
  Traffic traffic_;
  std::vector<Connection> connections_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace taut
