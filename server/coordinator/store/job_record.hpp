#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/ssp/batch_shares.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"
#include "server/coordinator/store/followers.hpp"
#include "server/coordinator/store/roster.hpp"

namespace taut {

/// The delivery of a desired state to one peer: sent as a whole, until it is acknowledged.
class Delivery {
 public:
  [[nodiscard]] bool is_due(std::uint64_t revision, PeerId peer, TimePoint now) const {
    if (acknowledged_ >= revision) return false;
    return sent_ < revision || to_ != peer || now >= again_;
  }
  void note_sent(std::uint64_t revision, PeerId peer, TimePoint again) {
    sent_ = revision;
    to_ = peer;
    again_ = again;
  }
  void acknowledge(std::uint64_t revision) { acknowledged_ = std::max(acknowledged_, revision); }
  [[nodiscard]] std::uint64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] TimePoint again() const { return again_; }
  [[nodiscard]] bool was_sent() const { return sent_ > 0; }

 private:
  std::uint64_t acknowledged_ = 0;
  std::uint64_t sent_ = 0;
  PeerId to_;
  TimePoint again_;
};

/// From the beginning of a first clock to the end of the last one so far.
struct TrainedSpan {
  TimePoint from;
  TimePoint to;
};

/// One job: its stored record, and the progress of its servers and workers.
/// Invariant: servers and workers correspond to stored().servers() and stored().members().
class JobRecord {
 public:
  struct Server {
    Delivery delivery;
    pb::ServerJobReply reply;  // the newest
    bool lost = false;
  };
  /// Hosts that could not keep a shard's images: they are not chosen again before `until`.
  struct GivenUp {
    std::uint32_t shard = 0;
    std::uint32_t host = 0;
    TimePoint until;
    std::string reason;
  };
  /// A removal of parts that was ordered.
  struct Removal {
    Incarnation ordered_in;  // the server's life
    TimePoint again;         // when it is ordered again; never while it is under way
  };
  /// Members that left and are still shown by name.
  static constexpr std::ptrdiff_t kMaxPast = 32;
  struct Worker {
    Delivery delivery;
    bool notified = false;                 // it may know of the job
    std::optional<TrainedSpan> trained;    // nullopt if no clock of it has ended
    std::uint64_t bad_updates = 0;         // clocks whose updates servers have refused
    std::uint64_t judged_bad_updates = 0;  // of these, those that note_bad_updates() has seen
    // Of a job that balances: what it had computed when its speed began to be measured.
    std::optional<pb::Progress> measured_from;
    std::optional<BatchTime> measured;  // at its present share
  };

  JobRecord(pb::StoredJob stored, TimePoint now)
      : stored_(std::move(stored)), counted_to_(now), closing_since_(now) {}
  /// A job that was stored before the coordinator restarted.
  static JobRecord recover(pb::StoredJob stored, TimePoint now);

  [[nodiscard]] const pb::StoredJob& stored() const { return stored_; }
  /// For changes, which are saved before anything is sent.
  [[nodiscard]] pb::StoredJob& change() {
    changed_ = true;
    ++version_;
    roster_.reset();
    return stored_;
  }
  /// Rises with each change, but for those of revisions and where a member has finished.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] bool take_changed() { return std::exchange(changed_, false); }

  /// What the delivery to its members depends on, as it was when they were last looked at.
  struct LookAtMembers {
    std::uint64_t version = 0;    // of the record
    std::uint64_t lives = 0;      // of the registry
    bool awaits_servers = false;  // some member gets no state until they have a revision
    TimePoint again;              // when the first of them is sent its state again
  };

  std::vector<Server> servers;
  std::vector<Worker> workers;
  std::optional<LookAtMembers> delivered;  // nullopt: they are to be looked at
  /// Versions of the record and the registry at which all members that work were found alive.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> alive_at;
  bool has_new_bad_updates = false;  // since note_bad_updates()
  /// Shards may have to move though neither the record nor the registry has changed: a server
  /// reports something new, or time has passed.
  bool placement_due = false;
  /// The shortest time from a member's start to its first clock; nullopt if none has reported it.
  std::optional<double> start_s;
  std::vector<GivenUp> given_up;
  /// Shards, and servers by index that were ever given up for them: not tried again where there is
  /// a backup.
  std::set<std::pair<std::uint32_t, int>> unsuited;
  /// Of parts that a server is to remove, by its name and their folder.
  std::map<std::pair<std::string, std::string>, Removal> removals;
  /// All parts of the ordered checkpoint are written, and the task to finish it was issued.
  bool finishes_checkpoint = false;
  /// The number of the order that was under way when the coordinator started again: servers that
  /// were lost since it was given may have been waited for, or not. 0: there was none.
  std::uint64_t recovered_order = 0;
  /// Since when the job waits only for a checkpoint.
  std::optional<TimePoint> waits_for_checkpoint;
  /// Since when a job that is stopped waits for its checkpoint.
  std::optional<TimePoint> saving_since;
  /// Until when it is not to make room for another: it could not be saved when it was to.
  std::optional<TimePoint> keeps_until;
  Followers followers;
  /// Once it has ended: from when on its tables are kept only for followers that have reported.
  std::optional<TimePoint> lingers_from;
  /// When other shares of the batch were proposed.
  std::optional<TimePoint> shares_proposed;
  /// Since when no worker has been left.
  std::optional<TimePoint> waits_for_workers;

  /// Running, or ended while workers have yet to confirm it.
  [[nodiscard]] bool is_active() const {
    return stored_.state() == pb::RUNNING || stored_.closing();
  }
  [[nodiscard]] bool has_ended() const { return stored_.state() >= pb::DONE && !stored_.closing(); }
  [[nodiscard]] bool works(const pb::StoredMember& member) const {
    return !member.finished() && !member.lost();
  }

  /// Which workers it takes: those that are for this job alone, or, of value 0, those that train
  /// nets.
  [[nodiscard]] JobId takes() const {
    return stored_.definition().external_members() ? JobId(stored_.job()) : JobId();
  }
  /// Members that have left as finished.
  [[nodiscard]] bool has_finished_members() const {
    return !stored_.former().finished_slots().empty() || roster().finished() > 0;
  }

  /// What follows from its members. Valid until the next change.
  [[nodiscard]] const Roster& roster() const {
    if (!roster_) roster_.emplace(stored_);
    return *roster_;
  }
  /// How many members work.
  [[nodiscard]] std::uint32_t working() const { return roster().working(); }

  /// How many members work and are not to leave.
  [[nodiscard]] std::uint32_t staying() const { return roster().staying(); }
  /// How many members it may have.
  [[nodiscard]] std::uint32_t worker_limit() const {
    return stored_.worker_limit() > 0 ? stored_.worker_limit() : stored_.slots();
  }

  /// How many slots have no worker because it was lost. It may take idle ones before any job that
  /// waits, up to its limit.
  [[nodiscard]] std::uint32_t lost_slots() const;

  /// Adds a member that starts at `join`; it is notified once every server knows of it.
  void add_member(const pb::Member& member, std::uint64_t session, const std::string& device);
  /// Members that left at or before `version`, below which no update is missing anywhere, are past:
  /// servers forget them with the next revision, and of the record's past members only the newest
  /// kMaxPast stay, the others as totals. REQUIRES: no checkpoint is ordered.
  void forget_past(Clock version);
  /// The number of the next member. Numbers are never given twice.
  [[nodiscard]] std::uint32_t next_worker() const;
  /// A new desired state for every server.
  void revise() {
    changed_ = true;
    servers_lack_finished_ = false;
    stored_.set_revision(stored_.revision() + 1);
  }
  /// Has servers know which members have finished, where shards have backups. A shard that is taken
  /// over waits for no such member, and a take-over is a revision itself, so that this need not be
  /// at once: those of a thousand members that finish together are one.
  void revise_finished() {
    if (servers_lack_finished_) revise();
  }
  /// A new desired state for one worker.
  void revise_worker(int index);
  /// A new desired state for every worker that works.
  void revise_workers();
  /// Whether every member that works has its newest state: one that has died says nothing of it.
  [[nodiscard]] bool all_answer() const;
  /// The clock behind all that a member is known to have begun, and behind all updates that count:
  /// one that was lost or has left may have been ahead of the others.
  [[nodiscard]] std::int64_t first_unbegun() const;
  /// Assigns the test phase to another worker if the one that runs it was lost.
  void choose_evaluator();

  /// The server that has a host, by its index; -1 if there is none.
  [[nodiscard]] int server_of(std::uint32_t host) const;
  /// Whether a backup of a shard has reported that it has an image of every slice.
  [[nodiscard]] bool is_whole(int shard, const pb::StoredBackup& backup) const;

  /// Whether every server that is not lost has adopted this revision.
  [[nodiscard]] bool servers_have(std::uint64_t revision) const;
  void take_reply(int server, const pb::ServerJobReply& reply);
  /// Adopts a worker's report; one of another life or an earlier clock is ignored.
  void take_progress(int member, const pb::Progress& progress, TimePoint now);
  /// Records trained, divided by the time from the beginning of any worker's first clock to the end
  /// of any worker's last one; tests between them are part of it. 0: no clock has ended.
  [[nodiscard]] double records_per_second() const;
  /// The newest member with this incarnation, or -1.
  [[nodiscard]] int find_member(Incarnation incarnation) const;
  [[nodiscard]] int find_server(const std::string& name, Incarnation incarnation) const;

  [[nodiscard]] pb::ServerJob server_job(int server) const;
  [[nodiscard]] pb::WorkerJob worker_job(int member) const;
  /// Adds the addresses of its shards, as they are sent to workers.
  void add_shards_to(pb::FollowReply& reply) const;

  /// Running time; time before a restart of the coordinator counts up to the last record.
  [[nodiscard]] double running_s(TimePoint now) const;
  void start_running(TimePoint now) { counted_to_ = now; }
  /// Stores the running time until now in the record.
  void count_running(TimePoint now);

  /// When its workers were ordered to end. REQUIRES: it is closing.
  [[nodiscard]] TimePoint closing_since() const { return closing_since_; }
  void start_closing(TimePoint now) { closing_since_ = now; }

 private:
  void add_backups(pb::ServerJob& state) const;
  void take_evaluations(const pb::Progress& progress);

  pb::StoredJob stored_;
  std::optional<TrainedSpan> former_;     // of members that the record no longer has
  mutable std::optional<Roster> roster_;  // nullopt: it is to be made anew
  std::uint64_t version_ = 0;
  bool changed_ = true;
  bool servers_lack_finished_ = false;  // a member has finished since the last revision
  TimePoint counted_to_;                // the record has the running time until then
  TimePoint closing_since_;
};

}  // namespace taut
