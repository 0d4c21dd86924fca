#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// How far one peer has come with a desired state that is sent whole, until it is acknowledged.
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
  [[nodiscard]] bool was_sent() const { return sent_ > 0; }

 private:
  std::uint64_t acknowledged_ = 0;
  std::uint64_t sent_ = 0;
  PeerId to_;
  TimePoint again_;
};

/// One job: what is kept of it across restarts, and how far its servers and workers have come.
/// Invariant: servers and workers stand beside stored().servers() and stored().members().
class JobRecord {
 public:
  struct Server {
    Delivery delivery;
    pb::ServerJobReply reply;  // the newest
  };
  struct Worker {
    Delivery delivery;
    bool told = false;  // it may have been told of the job
  };

  JobRecord(pb::StoredJob stored, TimePoint now)
      : stored_(std::move(stored)), counted_to_(now), closing_since_(now) {}
  /// One that was stored before the coordinator restarted.
  static JobRecord recover(pb::StoredJob stored, TimePoint now);

  [[nodiscard]] const pb::StoredJob& stored() const { return stored_; }
  /// To change it; what was changed is saved before anything is sent.
  [[nodiscard]] pb::StoredJob& change() {
    changed_ = true;
    return stored_;
  }
  [[nodiscard]] bool take_changed() { return std::exchange(changed_, false); }

  std::vector<Server> servers;
  std::vector<Worker> workers;
  /// All parts of the ordered checkpoint are written, and somebody was told to finish it.
  bool finishes_checkpoint = false;
  /// Since when only a checkpoint keeps the job from its end.
  std::optional<TimePoint> waits_for_checkpoint;

  /// Running, or ended with workers that are still to confirm it.
  [[nodiscard]] bool is_active() const {
    return stored_.state() == pb::RUNNING || stored_.closing();
  }
  [[nodiscard]] bool has_ended() const { return stored_.state() >= pb::DONE && !stored_.closing(); }
  [[nodiscard]] bool works(const pb::StoredMember& member) const {
    return !member.finished() && !member.lost();
  }

  /// Adds a member whose part begins at `join`, told of once every server knows of it.
  void add_member(const pb::Member& member, std::uint64_t session, const std::string& device);
  /// A new desired state for every server.
  void revise() { change().set_revision(stored_.revision() + 1); }
  /// A new desired state for one worker.
  void revise_worker(int index);
  /// Hands the test phase on when the one that runs it was lost.
  void choose_evaluator();

  /// Whether every server has taken this revision over.
  [[nodiscard]] bool servers_have(std::uint64_t revision) const;
  void take_reply(int server, const pb::ServerJobReply& reply);
  /// Takes a worker's report over; one of another life or an earlier clock is ignored.
  void take_progress(int member, const pb::Progress& progress);
  /// The newest member with this incarnation, or -1.
  [[nodiscard]] int find_member(Incarnation incarnation) const;
  [[nodiscard]] int find_server(const std::string& name, Incarnation incarnation) const;

  [[nodiscard]] pb::ServerJob server_job(int server) const;
  [[nodiscard]] pb::WorkerJob worker_job(int member) const;

  /// How long it has run; before a restart of the coordinator, up to the last record.
  [[nodiscard]] double running_s(TimePoint now) const;
  void start_running(TimePoint now) { counted_to_ = now; }
  /// Puts the running time up to now into the record.
  void count_running(TimePoint now);

  /// When its workers were told to end. REQUIRES: it is closing.
  [[nodiscard]] TimePoint closing_since() const { return closing_since_; }
  void start_closing(TimePoint now) { closing_since_ = now; }

 private:
  pb::StoredJob stored_;
  bool changed_ = true;
  TimePoint counted_to_;  // the running time up to here is in the record
  TimePoint closing_since_;
};

}  // namespace taut
