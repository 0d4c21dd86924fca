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

/// From the beginning of the first clock to the end of the newest one.
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
  /// A host that could not keep a shard's images: it is not chosen again before `until`.
  struct GivenUp {
    std::uint32_t shard = 0;
    std::uint32_t host = 0;
    TimePoint until;
    std::string reason;
  };
  /// A removal of parts that was ordered.
  struct Removal {
    Incarnation ordered_in;  // the server's life
    TimePoint again;         // when it is ordered again; never() while in progress
  };
  /// How many members that left are still shown by name.
  static constexpr std::ptrdiff_t kMaxPast = 32;
  struct Worker {
    Delivery delivery;
    bool notified = false;                 // it may know of the job
    std::optional<TrainedSpan> trained;    // nullopt if none of its clocks has ended
    std::uint64_t bad_updates = 0;         // clocks whose updates servers have refused
    std::uint64_t judged_bad_updates = 0;  // the part that note_bad_updates() has handled
    // In a balancing job: its progress when the measurement of its speed began.
    std::optional<pb::Progress> measured_from;
    std::optional<BatchTime> measured;  // at its current share
  };

  JobRecord(pb::StoredJob stored, TimePoint now)
      : stored_(std::move(stored)), counted_to_(now), closing_since_(now) {}
  /// Restores a job that was stored before the coordinator restarted.
  static JobRecord recover(pb::StoredJob stored, TimePoint now);

  [[nodiscard]] const pb::StoredJob& stored() const { return stored_; }
  /// For changes, which are saved before anything is sent.
  [[nodiscard]] pb::StoredJob& change() {
    changed_ = true;
    ++version_;
    roster_.reset();
    return stored_;
  }
  /// Rises with each change, except changes of revisions and members that finish.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] bool take_changed() { return std::exchange(changed_, false); }

  /// What delivery to the members depends on, as it was when they were last examined.
  struct LookAtMembers {
    std::uint64_t version = 0;    // of the record
    std::uint64_t lives = 0;      // of the registry
    bool awaits_servers = false;  // some member gets no state until they have a revision
    TimePoint again;              // when the first of them is sent its state again
  };

  std::vector<Server> servers;
  std::vector<Worker> workers;
  std::optional<LookAtMembers> delivered;  // nullopt if they must be examined
  /// Versions of the record and the registry at which working members were last checked for losses.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> alive_at;
  bool has_new_bad_updates = false;  // since note_bad_updates()
  /// Shards may have to move although neither the record nor the registry has changed: a server or
  /// worker reports something new, or time has passed.
  bool placement_due = false;
  /// The shortest time from a member's start to its first clock; nullopt if none has reported it.
  std::optional<double> start_s;
  std::vector<GivenUp> given_up;
  /// Shards, each with the index of a server that was ever given up for it: the server is not tried
  /// again while the shard has a backup.
  std::set<std::pair<std::uint32_t, int>> unsuited;
  /// Removals of parts on servers, by the server's name and the parts' folder.
  std::map<std::pair<std::string, std::string>, Removal> removals;
  /// All parts of the ordered checkpoint are written, and the task to finish it was issued.
  bool finishes_checkpoint = false;
  /// The number of the checkpoint order that was in progress when the coordinator restarted: it is
  /// unknown whether servers lost since it was given had parts to write. 0 if there was none.
  std::uint64_t recovered_order = 0;
  /// Since when the job waits only for a checkpoint.
  std::optional<TimePoint> waits_for_checkpoint;
  /// Since when a job that is stopped waits for its checkpoint.
  std::optional<TimePoint> saving_since;
  /// Until when it is not asked again to make room: it could not be saved when it was asked.
  std::optional<TimePoint> keeps_until;
  Followers followers;
  /// For an ended job: the time from which its tables are kept only for followers that have
  /// reported.
  std::optional<TimePoint> lingers_from;
  /// When new shares of the batch were proposed.
  std::optional<TimePoint> shares_proposed;
  /// Since when the job has had no worker.
  std::optional<TimePoint> waits_for_workers;

  /// Running, or ended but not yet confirmed by its workers.
  [[nodiscard]] bool is_active() const {
    return stored_.state() == pb::RUNNING || stored_.closing();
  }
  [[nodiscard]] bool has_ended() const { return stored_.state() >= pb::DONE && !stored_.closing(); }
  [[nodiscard]] bool works(const pb::StoredMember& member) const {
    return !member.finished() && !member.lost();
  }

  /// Which workers it takes: those dedicated to the returned job, or if that is 0, those that train
  /// nets.
  [[nodiscard]] JobId takes() const {
    return stored_.definition().external_members() ? JobId(stored_.job()) : JobId();
  }
  /// Whether any member has finished.
  [[nodiscard]] bool has_finished_members() const {
    return !stored_.former().finished_slots().empty() || roster().finished() > 0;
  }

  /// A summary of its members. Valid until the next change.
  [[nodiscard]] const Roster& roster() const {
    if (!roster_) roster_.emplace(stored_);
    return *roster_;
  }
  /// How many members work.
  [[nodiscard]] std::uint32_t working() const { return roster().working(); }

  /// How many members work and were not ordered to leave.
  [[nodiscard]] std::uint32_t staying() const { return roster().staying(); }
  /// How many members it may have.
  [[nodiscard]] std::uint32_t worker_limit() const {
    return stored_.worker_limit() > 0 ? stored_.worker_limit() : stored_.slots();
  }

  /// How many slots have lost their worker, up to the worker limit. The job may take idle workers
  /// for them before any waiting job.
  [[nodiscard]] std::uint32_t lost_slots() const;

  /// Adds a member that starts at its join clock; it is notified once every server knows of it.
  void add_member(const pb::Member& member, std::uint64_t session, const std::string& device);
  /// Marks members that left at or before `version`, below which no update is missing anywhere, as
  /// past: servers forget them with the next revision, and the record keeps only the newest
  /// kMaxPast past members, and totals of the others. REQUIRES: no checkpoint is ordered.
  void forget_past(Clock version);
  /// The number of the next member. Numbers are never reused.
  [[nodiscard]] std::uint32_t next_worker() const;
  /// Gives every server a new desired state.
  void revise() {
    changed_ = true;
    servers_lack_finished_ = false;
    stored_.set_revision(stored_.revision() + 1);
  }
  /// Lets servers know which members have finished, if shards have backups. A shard that is taken
  /// over does not wait for such members, and a takeover is itself a revision, so this may be
  /// delayed: a thousand members that finish together cause one revision.
  void revise_finished() {
    if (servers_lack_finished_) revise();
  }
  /// Gives one worker a new desired state.
  void revise_worker(int index);
  /// Gives every working member a new desired state.
  void revise_workers();
  /// Whether every working member has its newest state: one that has died never confirms it.
  [[nodiscard]] bool all_answer() const;
  /// The first clock after all that any member is known to have begun, and after all updates that
  /// count: a member that was lost or has left may have been ahead of the others.
  [[nodiscard]] std::int64_t first_unbegun() const;
  /// Assigns the test phase to another worker if the one that runs it was lost.
  void choose_evaluator();

  /// The index of the server that has a host; -1 if there is none.
  [[nodiscard]] int server_of(std::uint32_t host) const;
  /// Whether a backup of a shard has reported that it has an image of every slice.
  [[nodiscard]] bool is_whole(int shard, const pb::StoredBackup& backup) const;

  /// Whether every server that is not lost has adopted this revision.
  [[nodiscard]] bool servers_have(std::uint64_t revision) const;
  void take_reply(int server, const pb::ServerJobReply& reply);
  /// Adopts a worker's report; one of another life or an earlier clock is ignored.
  void take_progress(int member, const pb::Progress& progress, TimePoint now);
  /// Records trained, divided by the time from the beginning of any worker's first clock to the end
  /// of any worker's last one, tests in between included. 0 if no clock has ended.
  [[nodiscard]] double records_per_second() const;
  /// The newest member with this incarnation, or -1.
  [[nodiscard]] int find_member(Incarnation incarnation) const;
  [[nodiscard]] int find_server(const std::string& name, Incarnation incarnation) const;

  [[nodiscard]] pb::ServerJob server_job(int server) const;
  [[nodiscard]] pb::WorkerJob worker_job(int member) const;
  /// Adds the addresses of its shards, as they are sent to workers.
  void add_shards_to(pb::FollowReply& reply) const;

  /// Running time; before a restart of the coordinator, it counts up to the last saved record.
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
  mutable std::optional<Roster> roster_;  // nullopt if it must be rebuilt
  std::uint64_t version_ = 0;
  bool changed_ = true;
  bool servers_lack_finished_ = false;  // a member has finished since the last revision
  TimePoint counted_to_;                // the record includes the running time until then
  TimePoint closing_since_;
};

}  // namespace taut
