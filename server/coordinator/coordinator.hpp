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
  // How long a worker of a balancing job computes before its measured speed is used.
  Duration balance_measure = std::chrono::seconds(1);
  // How long workers may hold a clock for a change of shares while one of them does not answer.
  Duration balance_hold = std::chrono::seconds(2);
  // How long a job whose workers have finished waits for its last checkpoint.
  Duration checkpoint_limit = std::chrono::minutes(10);
  // How long a job that is being stopped waits for its last checkpoint.
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
  bool logs_updates = false;                         // an update counts once the backups have it
  std::uint64_t kept_bytes = 0;  // of updates that a worker keeps for backups; 0: no limit
  std::uint64_t session = 0;     // different at every start
  pb::DataSecurity data_security = pb::DATA_SECURITY_ANY;  // of all daemons; ANY: not restricted
  bool is_saved = true;  // false: it is never restarted, and reports no changed jobs
  pb::SchedulingConfig scheduling{};
};

struct CoordinatorMessage {
  PeerId to;
  pb::ControlMessage message;
};

/// The results of one step. The caller first saves the changes, then sends the messages and passes
/// on the tasks. Notes are for the log.
struct CoordinatorOutput {
  CoordinatorChanges changes;
  std::vector<CoordinatorMessage> messages;
  CheckpointTasks tasks;
  Notes notes;
};

/// The core of the control plane: which processes exist, which job runs, which workers belong to it
/// at which clocks. A state machine over (messages, time) without I/O; any message may be lost,
/// repeated, late or malformed. The desired state of each server and worker is sent as a whole
/// until it is acknowledged.
/// Thread    its owner's, which calls tick() at least every 100 ms or so
class Coordinator {
 public:
  /// recovered  the stored state; a running job continues with the processes that reconnect
  ///            within the heartbeat limit
  Coordinator(CoordinatorOptions options, const CoordinatorRecords& recovered, TimePoint now);

  [[nodiscard]] CoordinatorOutput handle(PeerId from, const pb::ControlMessage& message,
                                         TimePoint now);
  [[nodiscard]] CoordinatorOutput tick(TimePoint now);
  /// Notes that a peer's connection has closed; its process may reconnect as another peer.
  void note_closed(PeerId peer, TimePoint now) { registry_.note_closed(peer, now); }
  /// Notes that every message received so far has been handled.
  void note_idle(TimePoint now) { registry_.note_idle(now); }
  /// Handles the result of a task; an empty error means success.
  [[nodiscard]] CoordinatorOutput handle_done(const CheckpointTask& task, const std::string& error,
                                              TimePoint now);

  /// The name of the process on this connection if it belongs to the job; empty otherwise.
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
  /// Returns the job that a command may change, or nullptr and the reason in `error`.
  JobRecord* find_for_command(std::uint64_t job, std::string& error);

  void recover(const pb::StoredJob& stored);
  /// Applies all consequences of the changes so far.
  void settle();
  /// Stops a job whose checkpoint is written, or has taken too long.
  void stop_saved(JobRecord& job);
  void avoid_given_up(const pb::StoredJob& job);
  /// Restarts a failed job from its newest checkpoint, as a new job. REQUIRES: may_restart(failed)
  void restart(const pb::StoredJob& failed);
  /// Starts waiting jobs and has others make room for them, as the scheduling policy decides. Runs
  /// at each tick and when the queue changes: with a thousand workers, doing this per message would
  /// be too expensive.
  void schedule();
  void limit_workers(JobRecord& job, const SchedulingDecision& decision,
                     const std::vector<const Participant*>& workers);
  void renew_former(JobRecord& job);
  /// Starts jobs with external members, which compete with no other job for their members.
  void start_external_jobs();
  void start(JobRecord& job, const std::vector<const Participant*>& workers);
  /// Why a worker dedicated to this job is refused; empty if it is admitted.
  [[nodiscard]] std::string why_not_member(JobId job) const;
  [[nodiscard]] std::string why_never_scheduled(const Participant& participant) const;
  void preempt(JobRecord& job);
  /// Lets a job that should make room but cannot be saved continue; it is asked again later.
  void keep_place(JobRecord& job);
  /// Has a last checkpoint written, after which the job is stopped.
  /// then  what follows the checkpoint, for the log
  /// Returns whether the job is saved first; false if no checkpoint can be written now
  bool save_and_stop(JobRecord& job, const std::string& then);
  void forget_old_jobs();
  void deliver(JobRecord& job);
  void deliver_to_members(JobRecord& job);
  CoordinatorOutput take_output();

  // The state of the queue (coordinator_queue.cpp).
  struct Queue {
    SchedulingState state;
    SchedulingDecision decision;
    std::vector<const Participant*> workers;  // of `state`, in the same order
    std::map<JobId, std::uint32_t> places;    // from 1, of jobs that wait and are not held
    bool awaits_known = false;                // while true, nothing is decided
    bool gathers = false;                     // while true, nothing is decided
  };
  /// The job that a worker works for.
  struct WorkerUse {
    JobId job;
    bool leaves = false;
  };
  [[nodiscard]] Queue queue() const;
  void number(Queue& queue) const;
  /// competes  whether jobs wait, so that the time when it ends matters
  [[nodiscard]] ScheduledJob scheduled(const JobRecord& job, bool competes) const;
  [[nodiscard]] bool may_know_workers(const JobRecord& job) const;
  /// Whether processes of an earlier coordinator may still reconnect: true for the heartbeat limit
  /// after a restart, since the stored state does not name idle ones. Pauses in which the
  /// coordinator itself did not run do not count.
  [[nodiscard]] bool awaits_any() const;
  /// Whether a process that a running job needs, and that the state therefore names, has not
  /// reconnected yet: until then it is unknown which places are free and which are missing.
  [[nodiscard]] bool awaits_known() const;
  /// Whether more processes are likely to reconnect after a restart: one has joined recently, and
  /// the state names none, or some that are still missing. A job that started now would be placed
  /// on only the part of the cluster that is back.
  [[nodiscard]] bool gathers() const;
  /// Why a submitted job does not start now; empty if it does.
  [[nodiscard]] std::string waiting_message(const JobRecord& job, const Queue& queue) const;
  [[nodiscard]] std::string waits_for_workers(const JobRecord& job, std::uint32_t fitting) const;
  [[nodiscard]] std::string waits_for_quota(const JobRecord& job, WaitReason reason) const;
  [[nodiscard]] std::string waits_for_memory(const JobRecord& job) const;
  [[nodiscard]] UserQuota quota_of(const JobRecord& job) const;
  /// Whether a member has finished while its process still has to write its part of the current
  /// checkpoint: giving it another job would end the run that has that part.
  [[nodiscard]] bool is_saving(const JobRecord& job, int member) const;
  /// The workers, by life, that work for a job or still write their part of its checkpoint.
  [[nodiscard]] std::map<Incarnation, WorkerUse> busy_workers() const;
  /// The idle workers that are dedicated to this job; 0: those that train nets.
  [[nodiscard]] std::vector<const Participant*> idle_workers(JobId job = JobId()) const;
  /// As many idle workers as fit the job's demand together, nearest to its own workers first.
  [[nodiscard]] std::vector<const Participant*> fitting_workers(const JobRecord& job) const;
  /// fitting_workers(), which is called again only when its result may have changed: a job that
  /// lacks a worker looks for one in each step.
  [[nodiscard]] std::vector<const Participant*> workers_for(const JobRecord& job);
  /// What fitting_workers() depends on.
  [[nodiscard]] std::vector<std::uint64_t> idle_state() const;
  /// All workers that train nets and take work.
  /// workers  receives them, in the list's order
  [[nodiscard]] WorkerList worker_list(std::vector<const Participant*>& workers) const;
  /// Bytes of tables for which the servers together have room; nullopt if no limit is known.
  /// all  whether to count bytes that running jobs have reserved as well
  [[nodiscard]] std::optional<std::uint64_t> server_memory(bool all) const;
  pb::ControlMessage& send(PeerId to, std::uint64_t request = 0);

  const CoordinatorOptions options_;
  const std::unique_ptr<SchedulingPolicy> policy_;
  Registry registry_;
  std::map<JobId, JobRecord> jobs_;
  std::uint64_t next_job_;
  std::uint64_t first_new_job_;  // jobs below it were submitted before processes had reconnected
  std::uint64_t saved_incarnation_;
  std::set<std::uint64_t> saved_leaving_;                    // sessions
  std::map<std::string, std::vector<pb::ShardLoad>> loads_;  // the newest, by server
  struct FittingWorkers {
    std::vector<std::uint64_t> state;  // idle_state() at the time of the search
    std::vector<const Participant*> workers;
  };
  std::map<JobId, FittingWorkers> fitting_;  // of jobs that lacked a worker since the last tick
  NodeChecks checks_;
  pb::TraceState trace_ = pb::TRACE_AS_CONFIGURED;  // until the coordinator ends
  TimePoint now_;
  TimePoint last_tick_;
  TimePoint recovered_at_;            // shifted by pauses in which this coordinator did not run
  TimePoint last_join_;               // shifted by the same pauses
  bool had_processes_;                // before it restarted
  bool names_processes_ = false;      // the recovered state names those of running jobs
  TimePoint next_refusal_note_;       // when the next refused hello may be logged
  std::uint64_t quiet_refusals_ = 0;  // refused hellos since the last one that was logged
  bool schedules_ = true;             // the next settle() runs schedule()
  CoordinatorOutput out_;
};

}  // namespace taut
