#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "server/coordinator/checkpoints/checkpoint_orders.hpp"
#include "server/coordinator/job_life.hpp"
#include "server/coordinator/node_checks.hpp"
#include "server/coordinator/queue/scheduling.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/coordinator_records.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

struct CoordinatorOptions {
  Duration heartbeat_limit = std::chrono::seconds(15);
  // Interval at which unacknowledged messages are sent again.
  Duration resend_interval = std::chrono::milliseconds(500);
  // How long an ending job waits for its workers' reports.
  Duration stop_limit = std::chrono::seconds(5);
  // How long a job that has lost every worker waits for another one.
  Duration worker_wait = std::chrono::seconds(60);
  // How long a worker of a job that balances computes before its speed is believed.
  Duration balance_measure = std::chrono::seconds(1);
  // How long its workers may hold a clock, for other shares, because one of them does not answer.
  Duration balance_hold = std::chrono::seconds(2);
  // How long a job whose workers are through waits for its last checkpoint.
  Duration checkpoint_limit = std::chrono::minutes(10);
  // How long a job that is stopped waits for the checkpoint that is written first.
  Duration save_limit = std::chrono::seconds(60);
  // The number of ended jobs that are kept; older ones are forgotten.
  std::size_t ended_jobs = 200;
  std::uint32_t max_workers = 1024;                           // that a job may request
  std::size_t max_participants = Registry::kMaxParticipants;  // servers and workers
  // Rises of V between two images of a slice, in jobs on two or more servers; 0: no shard has a
  // backup.
  std::uint32_t replication_interval = 0;
  std::uint32_t replication_copies = 1;              // backups of each shard
  Duration backup_limit = std::chrono::seconds(30);  // how far a backup may be behind
  bool logs_updates = false;                         // they count once the backups have them
  std::uint64_t kept_bytes = 0;  // of updates that a worker keeps for backups; 0: no limit
  std::uint64_t session = 0;     // different at every start
  pb::DataSecurity data_security = pb::DATA_SECURITY_ANY;  // that daemons must have too; ANY: any
  bool is_saved = true;  // false: nothing restarts it, and it names no changed jobs
  pb::SchedulingConfig scheduling{};
};

struct CoordinatorMessage {
  PeerId to;
  pb::ControlMessage message;
};

/// The results of one step, in this order: save the changes, then send and pass on the tasks; notes
/// are for the log.
struct CoordinatorOutput {
  CoordinatorChanges changes;
  std::vector<CoordinatorMessage> messages;
  CheckpointTasks tasks;
  Notes notes;
};

/// The core of the control plane: which processes exist, which job runs, which workers belong to it
/// at which clocks. A state machine over (messages, time) without I/O; any message may be lost,
/// repeated, late or malformed. What servers and workers must do is a state, sent as a whole until
/// it is acknowledged.
/// Thread    its owner's; tick() at least every 100 ms or so
class Coordinator {
 public:
  /// recovered  the stored state; a running job continues with the processes that reconnect
  ///            within the heartbeat limit
  Coordinator(CoordinatorOptions options, const CoordinatorRecords& recovered, TimePoint now);

  [[nodiscard]] CoordinatorOutput handle(PeerId from, const pb::ControlMessage& message,
                                         TimePoint now);
  [[nodiscard]] CoordinatorOutput tick(TimePoint now);
  /// A peer's connection has closed; it may connect anew as another peer.
  void note_closed(PeerId peer, TimePoint now) { registry_.note_closed(peer, now); }
  /// All messages that have arrived were handled.
  void note_idle(TimePoint now) { registry_.note_idle(now); }
  /// The result of a task; an empty error means success.
  [[nodiscard]] CoordinatorOutput handle_done(const CheckpointTask& task, const std::string& error,
                                              TimePoint now);

  /// The name of the process at this connection, if it has a part in the job; empty otherwise.
  [[nodiscard]] std::string process_of(PeerId peer, JobId job) const;

 private:
  void on_hello(PeerId from, const pb::ControlMessage& message);
  void note_refusal(const std::string& reason);
  void note_connection(const Participant& participant);
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
  void on_drain(const pb::Drain& request, pb::CommandReply& reply);
  void drain(const Participant& process);
  [[nodiscard]] bool is_drained(const Participant& process) const;
  void add_clocks(const JobRecord& job, pb::JobStatus& status) const;
  void on_change_queue(const pb::ChangeQueue& request, pb::CommandReply& reply);
  void on_make_checkpoint(const pb::MakeCheckpoint& request, pb::CommandReply& reply);
  void on_set_trace(const pb::SetTrace& request, pb::CommandReply& reply);
  // coordinator_followers.cpp
  void on_follow(const pb::Follow& request, pb::FollowReply& reply);
  void note_followers(JobRecord& job);
  [[nodiscard]] Duration lease_of(const JobRecord& job) const;
  void on_check_nodes(const pb::CheckNodes& request, pb::CheckNodesReply& reply);
  /// The job that a command may change, or nullptr and the reason.
  JobRecord* find_for_command(std::uint64_t job, std::string& error);

  void recover(const pb::StoredJob& stored);
  /// All consequences of the changes so far.
  void settle();
  /// Stops a job whose checkpoint is written, or has taken too long.
  void stop_saved(JobRecord& job);
  void avoid_given_up(const pb::StoredJob& job);
  /// Starts a job that has failed anew from its newest checkpoint, if its definition says so.
  void restart(const pb::StoredJob& failed);
  /// Starts jobs that wait, and has others make room for them, as the scheduling policy says. At
  /// each tick and when the queue changes: with a thousand workers it would be too dear for each
  /// message.
  void schedule();
  void limit_workers(JobRecord& job, const SchedulingDecision& decision,
                     const std::vector<const Participant*>& workers);
  void renew_former(JobRecord& job);
  /// Jobs with external members compete with no other for theirs.
  void start_external_jobs();
  void start(JobRecord& job, const std::vector<const Participant*>& workers);
  /// Why a worker that is for one job alone has nothing to do here; empty: it is welcome.
  [[nodiscard]] std::string why_not_member(JobId job) const;
  [[nodiscard]] std::string why_waits_in_vain(const Participant& participant) const;
  void preempt(JobRecord& job);
  /// One that was to make room and could not be saved continues, and is asked again later.
  void keep_place(JobRecord& job);
  /// Has a checkpoint written, after which the job is stopped.
  /// then  what happens then, for the log
  /// Returns whether it is saved first; false: no checkpoint can be written now
  bool save_and_stop(JobRecord& job, const std::string& then);
  void forget_old_jobs();
  void deliver(JobRecord& job);
  void deliver_to_members(JobRecord& job);
  CoordinatorOutput take_output();

  // What is known of the queue (coordinator_queue.cpp).
  struct Queue {
    SchedulingState state;
    SchedulingDecision decision;
    std::vector<const Participant*> workers;  // those of the state
    std::map<JobId, std::uint32_t> places;    // of jobs that wait and are not held, from 1
    bool awaits_known = false;                // nothing is decided meanwhile
    bool gathers = false;                     // likewise
  };
  /// A worker that works for a job.
  struct WorkerUse {
    JobId job;
    bool leaves = false;
  };
  [[nodiscard]] Queue queue() const;
  void number(Queue& queue) const;
  /// competes  jobs wait, so that it matters when it ends
  [[nodiscard]] ScheduledJob scheduled(const JobRecord& job, bool competes) const;
  [[nodiscard]] bool may_know_workers(const JobRecord& job) const;
  /// Whether processes of an earlier coordinator may yet reconnect to this one: for the limit of
  /// heartbeats after a restart, since the state does not name those that are idle. Pauses in which
  /// the coordinator itself does not run do not count.
  [[nodiscard]] bool awaits_any() const;
  /// Whether a process that a running job needs, and that the state therefore names, has yet to
  /// reconnect: until then no place is known to be free, and none to be lacking.
  [[nodiscard]] bool awaits_known() const;
  /// Whether further processes are about to reconnect after a restart: one has joined just now, and
  /// the state names none, or some that are not back. A job that started meanwhile would be placed
  /// on the part of the cluster that is back.
  [[nodiscard]] bool gathers() const;
  /// Why a submitted job does not start now; empty if it does.
  [[nodiscard]] std::string waiting_message(const JobRecord& job, const Queue& queue) const;
  [[nodiscard]] std::string waits_for_workers(const JobRecord& job, std::uint32_t fitting) const;
  [[nodiscard]] std::string waits_for_quota(const JobRecord& job, WaitReason reason) const;
  [[nodiscard]] std::string waits_for_memory(const JobRecord& job) const;
  [[nodiscard]] UserQuota quota_of(const JobRecord& job) const;
  /// Whether a member has finished, and its process has yet to write its part of the current
  /// checkpoint: another job would end the run that has it.
  [[nodiscard]] bool is_saving(const JobRecord& job, int member) const;
  /// The lives of workers that work for a job, or write their last part of its checkpoints.
  [[nodiscard]] std::map<Incarnation, WorkerUse> busy_workers() const;
  /// Those that are for this job alone; 0: those that train nets.
  [[nodiscard]] std::vector<const Participant*> idle_workers(JobId job = JobId()) const;
  /// Of the idle ones, as many as a job can have at a time.
  [[nodiscard]] std::vector<const Participant*> fitting_workers(const JobRecord& job) const;
  /// As fitting_workers(), which is called only where its result may have changed: a job that lacks
  /// a worker looks for one in each step.
  [[nodiscard]] std::vector<const Participant*> workers_for(const JobRecord& job);
  /// What fitting_workers() depends on.
  [[nodiscard]] std::vector<std::uint64_t> idle_state() const;
  /// All workers that train nets and take work.
  /// workers  receives them, in the list's order
  [[nodiscard]] WorkerList worker_list(std::vector<const Participant*>& workers) const;
  /// Bytes of tables for which all servers together have room; nullopt if no limit is known.
  /// all  also those that running jobs have reserved
  [[nodiscard]] std::optional<std::uint64_t> server_memory(bool all) const;
  pb::ControlMessage& send(PeerId to, std::uint64_t request = 0);

  const CoordinatorOptions options_;
  const std::unique_ptr<SchedulingPolicy> policy_;
  Registry registry_;
  std::map<JobId, JobRecord> jobs_;
  std::uint64_t next_job_;
  std::uint64_t first_new_job_;  // jobs below it are from before the processes had reconnected
  std::uint64_t saved_incarnation_;
  std::set<std::uint64_t> saved_leaving_;                    // sessions
  std::map<std::string, std::vector<pb::ShardLoad>> loads_;  // of each server, the newest
  struct FittingWorkers {
    std::vector<std::uint64_t> state;  // idle_state() when they were looked for
    std::vector<const Participant*> workers;
  };
  std::map<JobId, FittingWorkers> fitting_;  // of jobs that lacked a worker since the last tick
  NodeChecks checks_;
  pb::TraceState trace_ = pb::TRACE_AS_CONFIGURED;  // until the coordinator ends
  TimePoint now_;
  TimePoint last_tick_;
  TimePoint recovered_at_;            // and later by the pauses in which this one did not run
  TimePoint last_join_;               // likewise
  bool had_processes_;                // before it restarted
  bool names_processes_ = false;      // its state does: those of running jobs
  TimePoint next_refusal_note_;       // no hello's refusal is noted before
  std::uint64_t quiet_refusals_ = 0;  // since the last note of one
  bool schedules_ = true;             // when what has arrived is settled
  CoordinatorOutput out_;
};

}  // namespace taut
