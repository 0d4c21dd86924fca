#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "server/coordinator/checkpoint_orders.hpp"
#include "server/coordinator/coordinator_records.hpp"
#include "server/coordinator/job_life.hpp"
#include "server/coordinator/job_record.hpp"
#include "server/coordinator/registry.hpp"

namespace taut {

struct CoordinatorOptions {
  Duration heartbeat_limit = std::chrono::seconds(15);
  // What was not acknowledged is sent again so often.
  Duration resend_interval = std::chrono::milliseconds(500);
  // How long a job that ends waits for its workers to report.
  Duration stop_limit = std::chrono::seconds(5);
  // How long a job whose workers are through waits for its last checkpoint.
  Duration checkpoint_limit = std::chrono::minutes(10);
  // So many jobs that have ended are kept, the newest; older ones are forgotten.
  std::size_t ended_jobs = 200;
  std::uint64_t session = 0;  // different in every start
};

struct CoordinatorMessage {
  PeerId to;
  pb::ControlMessage message;
};

/// What one step leaves to be done, in this order: save, then send and hand the tasks on; the notes
/// are for the log.
struct CoordinatorOutput {
  CoordinatorChanges changes;
  std::vector<CoordinatorMessage> messages;
  CheckpointTasks tasks;
  Notes notes;
};

/// The brain of the control plane: who is here, which job runs, who belongs to it from which clock
/// to which. A state machine over (messages, time): it does no I/O, and any message may be lost,
/// repeated, late or senseless. What servers and workers are to do is a state, sent whole until it
/// is acknowledged.
/// Thread    its owner's; tick() at least every 100 ms or so
class Coordinator {
 public:
  /// recovered  what the store held; a job that ran goes on with the processes that come back
  ///            within the heartbeat limit
  Coordinator(CoordinatorOptions options, const CoordinatorRecords& recovered, TimePoint now);

  [[nodiscard]] CoordinatorOutput handle(PeerId from, const pb::ControlMessage& message,
                                         TimePoint now);
  [[nodiscard]] CoordinatorOutput tick(TimePoint now);
  /// What became of a task; an empty error: it went well.
  [[nodiscard]] CoordinatorOutput handle_done(const CheckpointTask& task, const std::string& error,
                                              TimePoint now);

 private:
  void on_hello(PeerId from, const pb::ControlMessage& message);
  void on_heartbeat(PeerId from, const pb::ControlMessage& message);
  void on_goodbye(PeerId from, const pb::Goodbye& goodbye);
  void on_server_reply(PeerId from, const Participant& server, const pb::ServerJobReply& reply,
                       bool in_heartbeat);
  void on_progress(PeerId from, const Participant& worker, const pb::Progress& progress);

  // Requests, answered at once (coordinator_requests.cpp).
  void on_submit(const pb::Submit& submit, pb::SubmitReply& reply);
  void on_status(const pb::StatusRequest& request, pb::StatusReply& reply);
  void on_set_slack(const pb::SetSlack& request, pb::CommandReply& reply);
  void on_stop(const pb::StopJob& request, pb::CommandReply& reply);
  void on_make_checkpoint(const pb::MakeCheckpoint& request, pb::CommandReply& reply);
  void on_set_trace(const pb::SetTrace& request, pb::CommandReply& reply);
  /// The job that a command may change, or nullptr with the reason.
  JobRecord* find_for_command(std::uint64_t job, std::string& error);

  void recover(const pb::StoredJob& stored);
  /// Whatever follows from what has changed.
  void settle();
  void start_next();
  void forget_old_jobs();
  void deliver(JobRecord& job);
  CoordinatorOutput take_output();
  /// Why a submitted job does not start now; empty: it does.
  [[nodiscard]] std::string waiting_message(const JobRecord& job) const;
  [[nodiscard]] const JobRecord* active_job() const;
  pb::ControlMessage& send(PeerId to, std::uint64_t request = 0);

  const CoordinatorOptions options_;
  Registry registry_;
  std::map<JobId, JobRecord> jobs_;
  std::uint64_t next_job_;
  std::uint64_t first_new_job_;  // those below it were recovered
  std::uint64_t saved_incarnation_;
  std::map<std::string, std::vector<pb::ShardLoad>> loads_;  // of each server, the newest
  pb::TraceState trace_ = pb::TRACE_AS_CONFIGURED;           // until the coordinator ends
  TimePoint now_;
  TimePoint last_tick_;
  TimePoint recovered_at_;
  CoordinatorOutput out_;
};

}  // namespace taut
