#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/endpoint.hpp"
#include "common/ssp/follower_bound.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/ssp/staleness_policy.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "server/checkpoints/job_capture.hpp"
#include "server/checkpoints/spare_memory.hpp"
#include "server/job_view.hpp"
#include "server/outbox.hpp"
#include "server/replication/image_sender.hpp"
#include "server/replication/slice_image.hpp"
#include "server/replication/slice_image_store.hpp"
#include "server/replication/slice_lag.hpp"
#include "server/shard_queues.hpp"
#include "server/slice_state.hpp"
#include "server/tables/table_memory.hpp"
#include "server/tables/weights_source.hpp"

namespace taut::server {

/// What the coordinator requests from every shard after a change.
struct ShardReport {
  JobId job;
  std::uint64_t revision = 0;
  std::map<WorkerId, Clock> fenced;  // the lowest done(w) over this shard's slices
  Clock max_done;                    // the highest done(w) of any member on any slice
  Clock min_version;                 // the lowest V of any slice that is written; never() if none
  bool settling = false;             // a slice that was taken over waits for members' updates
  /// A shard whose images are kept here.
  struct Copy {
    ShardId shard;
    std::uint64_t choice = 0;  // of this host as the shard's backup
    bool is_complete = false;
  };
  std::vector<Copy> copies;
  std::vector<ImageSender::Problem> problems;     // with its shards' backups, and what it keeps
  std::string error;                              // why the job cannot continue here
  std::map<WorkerId, std::uint64_t> bad_updates;  // clocks, at the slice with the most
};

/// The tables that a shard has opened, and their memory.
struct OpenedTables {
  JobId job;
  std::uint64_t bytes = 0;
  std::uint64_t compensation = 0;  // of these, reserved for the reads that policies keep
};

/// The clocks that a job's members have reached, as one shard sees them at one moment.
struct JobPositions {
  JobId job;
  Clock version;                                     // the lowest V of the shard's slices
  std::map<WorkerId, SliceState::Position> members;  // each where it is furthest behind
};

/// A shard as a state machine: it owns its slices of every job's tables, and answers messages. No
/// socket, thread or clock: a daemon and the simulator drive the same code.
/// Thread    shard thread
class Shard {
 public:
  /// initial  the source for tables that start from a file's values; nullptr: such tables are
  ///          refused
  Shard(ShardId id, BufferPool& pool, std::uint64_t slice_elements = SliceLayout::kSliceElements,
        WeightsSource* initial = nullptr)
      : id_(id), pool_(pool), slice_elements_(slice_elements), initial_(initial) {}

  /// Handles one message and returns the messages to send. Bad input is answered, never fatal.
  /// sender  the identity that its key proved; nullptr without keys: every message is then accepted
  ///         as the sender's own
  [[nodiscard]] std::vector<Outgoing> handle(PeerId from, DataMessage message, TimePoint now,
                                             const Identity* sender = nullptr);

  /// Why the secret that came with a message is not valid for it; empty if it is. If it is not, the
  /// message must be dropped.
  [[nodiscard]] std::string misuse_of(const TokenScope& scope, const DataMessage& message) const;

  /// Adopts a newer view of a job; ignores an older one. Returns the answers to reads that it
  /// allows.
  /// begin  with the first view of a resumed job: the initial state of its slices
  [[nodiscard]] std::vector<Outgoing> set_job(const std::shared_ptr<const JobView>& view,
                                              ShardImages begin = {});

  /// The checkpoint captures since the last call: one per order, once every slice of this shard is
  /// captured or one has missed the order's clock.
  [[nodiscard]] std::vector<ShardCapture> take_captures() {
    return std::exchange(work_.captures, {});
  }

  /// Memory that another thread must prepare for the checkpoints ordered since the last call, well
  /// before their clocks. Without it, updates wait for the system during a checkpoint.
  [[nodiscard]] std::vector<SpareStock> take_stocks() { return std::exchange(work_.stocks, {}); }

  /// Spare memory released since the last call. Another thread must return it to the system, which
  /// may take a while.
  [[nodiscard]] std::vector<SpareExcess> take_excesses() {
    return std::exchange(work_.excesses, {});
  }

  /// Releases spare memory if tables, including those of other jobs or shards, need it now.
  /// handle() does the same; this is for a caller that has no message to handle.
  void yield_spares();

  /// The tables opened since the last call.
  [[nodiscard]] std::vector<OpenedTables> take_opened() { return std::exchange(opened_, {}); }

  /// Sets how this host connects to others to send images; without it no shard here is replicated.
  void set_dial(Dial dial) { dial_ = std::move(dial); }
  /// Images that are due, including those to repeat because they were not acknowledged. Must be
  /// called at least every 100 ms or so while a job is replicated.
  [[nodiscard]] std::vector<Outgoing> take_images(TimePoint now);
  /// Jobs whose report has changed since the last call, although their revision has not.
  [[nodiscard]] std::vector<JobId> take_changed() { return std::exchange(changed_, {}); }

  /// A job's state for the coordinator; revision 0 if the job is unknown.
  [[nodiscard]] ShardReport report(JobId job) const;

  /// How far the backups of the shards that it serves lag, for every job.
  [[nodiscard]] std::vector<BackupLag> backup_lags(TimePoint now) const;

  /// The positions in its newest job; nullopt without a slice that workers push to or an active
  /// member.
  [[nodiscard]] std::optional<JobPositions> positions() const;

  /// A job whose slack is dynamic, and its workers' largest slack; nullopt if there is none.
  struct MovingSlack {
    JobId job;
    Slack slack;
  };
  [[nodiscard]] std::optional<MovingSlack> moving_slack() const;
  /// Updates that were dropped because their clock was over.
  [[nodiscard]] std::uint64_t dropped_updates() const { return dropped_; }
  /// The size of its jobs' parameters, in bytes.
  [[nodiscard]] std::uint64_t value_bytes() const;
  [[nodiscard]] const ShardQueues& queues() const { return queues_; }

  /// Whether images belong to a shard that is copied here, with its current term and copy number.
  [[nodiscard]] bool expects(JobId job, const DataImages& images) const;
  /// Sets the memory limit of its tables, shared with the server's other shards.
  void limit_memory(std::shared_ptr<TableMemory> memory) { memory_ = std::move(memory); }

  [[nodiscard]] ShardId id() const { return id_; }
  /// Sets its number, which a server's shard gets only when a job starts. Jobs that it already
  /// knows keep theirs.
  void set_id(ShardId id) { id_ = id; }

 private:
  struct JobState {
    JobState(BufferPool& values, BufferPool& states, CheckpointWork& work)
        : capture(values, states, work) {}

    ShardId id;                                 // of this host in the job
    std::map<ShardId, std::uint64_t> served;    // the shards, and their terms
    std::map<ShardId, SliceImageStore> copies;  // of shards that are served elsewhere
    ImageSender images;
    std::map<WorkerId, std::uint64_t> bad_updates;  // clocks, at the slice with the most
    std::string error;                              // why it cannot continue here
    bool settling = false;
    std::shared_ptr<const JobView> view;
    std::vector<TableSpec> tables;
    std::string tables_hash;         // by which workers name them, once they are open
    bool is_list_requested = false;  // from a worker that named tables which are not open
    std::map<PeerId, DataMessage> wait_for_list;  // other workers' OpenTables, until then
    std::vector<std::uint32_t> fragments;         // of each table
    SliceLayout layout;
    std::vector<TableMemory::Share> memory;
    /// The allowance for what waits at each shard's part of a table by rows.
    std::map<std::pair<ShardId, TableId>, std::shared_ptr<RowAllowance>> allowances;
    std::unique_ptr<ReadSlack> slack;
    FollowerBound bound;
    JobCapture capture;
    JobSlices slices;
    ShardImages begin;  // until the tables are opened
  };

  /// What a connection's hello said it is for.
  struct Greeting {
    JobId job;
    std::optional<ShardId> shard;  // nullopt: for snapshots of any shard
    std::uint64_t term = 0;
  };

  [[nodiscard]] std::string refusal_of_sender(const DataMessage& message,
                                              const Identity* sender) const;
  DataMessage greet(PeerId from, const DataMessage& message, const pb::DataHello& hello);
  [[nodiscard]] bool may_open(const DataMessage& message) const;
  [[nodiscard]] std::vector<Outgoing> take_opening(PeerId from, const DataMessage& message);
  [[nodiscard]] static bool waits_for_list(JobState& job, PeerId from, const DataMessage& message);
  void open(PeerId from, const DataMessage& message, std::vector<Outgoing>& answers);
  [[nodiscard]] std::optional<std::string> open_listed(JobState& job,
                                                       const pb::OpenTables& requested);
  [[nodiscard]] Result<void> create_slices(JobState& job, std::vector<TableSpec> tables);
  /// The pool of the rule's state in a job's slices: that of the values if images of both are sent.
  [[nodiscard]] BufferPool& states_of(const JobView& view) {
    return view.replication_interval > 0 ? pool_ : states_;
  }
  [[nodiscard]] std::unique_ptr<SliceState> make_slice(JobState& job, const TableSpec& table,
                                                       const Slice& place, const SliceImage* begin);
  [[nodiscard]] static std::shared_ptr<RowAllowance> allowance_of(JobState& job,
                                                                  const TableSpec& table,
                                                                  const Slice& place);
  [[nodiscard]] Result<void> start_from_file(const JobState& job, const TableSpec& table,
                                             SliceState& slice);
  void follow_checkpoint(JobState& job);
  void follow_places(JobState& job);
  [[nodiscard]] Result<void> take_over(JobState& job, const ShardPlace& place,
                                       SliceImageStore& copy);
  void forget_greetings(JobId job, const std::map<ShardId, std::uint64_t>& served);
  void take_sent(JobState& job, const Greeting& greeting, WorkerId worker, Incarnation incarnation,
                 const pb::OpenTables& requested, Outbox& out);
  std::vector<Outgoing> keep(PeerId from, JobId id, const DataImages& images);
  std::vector<Outgoing> note_kept(PeerId from, JobId id, const pb::SliceImagesReply& reply,
                                  TimePoint now);
  void note_settling(JobState& job);
  void note_backed(JobState& job, Outbox& out);
  void show_kept(JobState& job, std::size_t index, Outbox& out);
  void show_kept(JobState& job, Outbox& out);
  [[nodiscard]] Clock stable(const JobState& job, const SliceState& slice, WorkerId worker) const;
  void serve(PeerId from, const DataMessage& message, const DataItems& batch, Outbox& out);
  void serve_item(PeerId from, const DataMessage& message, const DataItem& item, JobState& job,
                  Outbox& out, bool is_logged = false);
  [[nodiscard]] static const UpdateLog* log_of(const JobState& job, const SliceState& slice);
  [[nodiscard]] static bool is_next(WorkerId worker, Clock clock, const JobState& job,
                                    const SliceState& slice);
  [[nodiscard]] static bool is_beyond_reads(WorkerId worker, Clock clock, const JobState& job,
                                            const SliceState& slice);
  [[nodiscard]] static std::optional<DataItem> beyond_clock_rows(WorkerId worker,
                                                                 const DataItem& item,
                                                                 const JobState& job,
                                                                 const SliceState& slice);
  static void snapshot(PeerId from, WorkerId worker, const DataItem& item, SliceState& slice,
                       Outbox& out);
  [[nodiscard]] static std::string reason_to_wait(WorkerId worker, const DataItem& item,
                                                  const JobState& job, const SliceState& slice);
  [[nodiscard]] static bool log_first(PeerId from, const DataMessage& message, const DataItem& item,
                                      JobState& job, const SliceState& slice, Outbox& out);
  void serve_logged(JobState& job, Outbox& out);
  [[nodiscard]] static Clock lowest_unsafe(const JobState& job);
  [[nodiscard]] static std::optional<DataItem> refusal_of(const DataMessage& message,
                                                          const DataItem& item, const JobState& job,
                                                          bool is_logged);
  [[nodiscard]] std::optional<DataItem> push(WorkerId worker, const DataItem& item, JobState& job,
                                             SliceState& slice, Outbox& out, bool is_logged);
  [[nodiscard]] DataMessage describe(JobId job, const pb::Describe& request) const;
  std::vector<Outgoing> take_confirmation(PeerId from, JobId job, const pb::Confirm& confirm);
  void note_bad_updates(JobState& job, const SliceState& slice);
  [[nodiscard]] bool read(const Reader& reader, JobState& job, SliceState& slice,
                          Outbox& out) const;
  void add(const std::vector<Answer>& answers, const JobState& job, const SliceState& slice,
           Outbox& out) const;
  void settle(PeerId from, WorkerId worker, const DataItem& item, JobState& job, SliceState& slice,
              Outbox& out);
  [[nodiscard]] static bool serves(const JobState& job, ShardId shard, std::uint64_t term);

  static constexpr Clock kMaxClock{std::int64_t{1} << 40U};  // no job has as many clocks

  ShardId id_;
  BufferPool& pool_;
  BufferPool states_{Bytes(64ULL << 20U)};  // the rules' state, if it is never sent
  CheckpointWork work_;
  const std::uint64_t slice_elements_;
  WeightsSource* const initial_;
  std::shared_ptr<TableMemory> memory_;  // nullptr: no limit
  std::map<JobId, JobState> jobs_;
  std::map<PeerId, Greeting> greeted_;
  std::set<PeerId> readers_;  // of these, those that were not members when they said hello
  Dial dial_;
  std::vector<JobId> changed_;
  std::vector<OpenedTables> opened_;
  TimePoint now_;  // when the message being handled arrived
  std::uint64_t dropped_ = 0;
  ShardQueues queues_;
};

}  // namespace taut::server
