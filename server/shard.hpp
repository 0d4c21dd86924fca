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
#include "common/ssp/dynamic_slack.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "server/initial_values.hpp"
#include "server/job_view.hpp"
#include "server/slice_capture.hpp"
#include "server/slice_state.hpp"
#include "server/spare_memory.hpp"
#include "server/table_memory.hpp"

namespace taut::server {

struct Outgoing {
  PeerId to;
  DataMessage message;
};

/// What the coordinator asks of every shard after a change.
struct ShardReport {
  JobId job;
  std::uint64_t revision = 0;
  std::map<WorkerId, Clock> fenced;  // the lowest done(w) over this shard's slices
  Clock max_done;                    // the highest done(w) of any member on any slice
};

/// Tables that a shard has opened, and what they take of its memory.
struct OpenedTables {
  JobId job;
  std::uint64_t bytes = 0;
  std::uint64_t compensation = 0;  // of these, what delay compensation may come to take
};

/// What waits at a shard, over the slices of all its jobs.
struct ShardQueues {
  std::uint64_t parked_reads = 0;  // until the slack allows them
  std::uint64_t held_updates = 0;  // accepted, until they may be applied
  std::uint64_t held_bytes = 0;    // the payload of these
  /// Sent back since the shard began, to come again: while an epoch changes, or out of order.
  std::uint64_t postponed_updates = 0;
};

/// A shard as a state machine: it owns its slices of every job's tables, and answers messages. No
/// socket, thread or clock: a daemon and the simulator drive the same code.
/// Thread    shard thread
class Shard {
 public:
  /// initial  where tables that begin with a file's numbers get them; null: such tables are refused
  Shard(ShardId id, BufferPool& pool, std::uint64_t slice_elements = SliceLayout::kSliceElements,
        InitialValues* initial = nullptr)
      : id_(id), pool_(pool), slice_elements_(slice_elements), initial_(initial) {}

  /// Takes one message and returns what is to be sent. Bad input is answered, never fatal.
  [[nodiscard]] std::vector<Outgoing> handle(PeerId from, DataMessage message, TimePoint now);

  /// Takes over a newer view of a job; an older one is ignored. Reads that it makes true are
  /// returned as messages.
  /// begin  with the first view of a resumed job: what its slices begin with
  [[nodiscard]] std::vector<Outgoing> set_job(const std::shared_ptr<const JobView>& view,
                                              ShardImages begin = {});

  /// What has been put aside for checkpoints since the last call: each order's once, when every
  /// slice of this shard is there, or when one has missed it.
  [[nodiscard]] std::vector<ShardCapture> take_captures() { return std::exchange(captures_, {}); }

  /// Memory that is to be made ready for the checkpoints ordered since the last call: by another
  /// thread, well before their clocks. Where nobody does it, updates wait for the system meanwhile.
  [[nodiscard]] std::vector<SpareStock> take_stocks() { return std::exchange(stocks_, {}); }

  /// Memory that stood ready and is let go since the last call: another thread gives it back to the system,
  /// as that may take a while.
  [[nodiscard]] std::vector<SpareSurplus> take_surpluses() { return std::exchange(surpluses_, {}); }

  /// Lets the memory that stands ready go where tables, of other jobs or shards too, have come to need it.
  /// handle() does that itself; whoever has no message for a while does it here.
  void give_way();

  /// Tables that were opened since the last call.
  [[nodiscard]] std::vector<OpenedTables> take_opened() { return std::exchange(opened_, {}); }

  /// What the coordinator wants to know of a job; of an unknown one, revision 0.
  [[nodiscard]] ShardReport report(JobId job) const;

  /// A job whose slack moves, and the largest that one of its workers has; nothing: there is none.
  struct MovingSlack {
    JobId job;
    Slack slack;
  };
  [[nodiscard]] std::optional<MovingSlack> moving_slack() const;
  /// Updates that were dropped because their clock was over.
  [[nodiscard]] std::uint64_t dropped_updates() const { return dropped_; }
  [[nodiscard]] const ShardQueues& queues() const { return queues_; }

  /// What its tables may take from now on, shared with the server's other shards.
  void limit_memory(std::shared_ptr<TableMemory> memory) { memory_ = std::move(memory); }

  [[nodiscard]] ShardId id() const { return id_; }
  /// The shard of a server is known by its number only once a job starts. Jobs that are known
  /// already keep theirs.
  void set_id(ShardId id) { id_ = id; }

 private:
  struct JobState {
    JobState(BufferPool& values, BufferPool& states) : spares(values, states) {}

    ShardId id;  // of this shard in the job
    std::shared_ptr<const JobView> view;
    std::vector<TableSpec> tables;
    SliceLayout layout;
    TableMemory::Share memory;
    std::optional<DynamicSlack> slack;
    SpareMemory spares;
    std::map<std::size_t, std::unique_ptr<SliceState>> slices;  // by SliceLayout::index_of
    ShardImages begin;                                          // until the tables are opened
    ShardCapture capture;                                       // for view->checkpoint
    bool captured = true;                                       // it was handed out
    std::uint64_t prepared = 0;                                 // the order that `spares` knows
  };
  class Outbox;
  class QueueCount;

  DataMessage greet(PeerId from, const DataMessage& message, const pb::DataHello& hello);
  DataMessage open(const DataMessage& message, const pb::OpenTables& wanted);
  [[nodiscard]] Result<void> create_slices(JobState& job, std::vector<TableSpec> tables);
  [[nodiscard]] Result<void> begin_from_file(const JobState& job, const TableSpec& table,
                                             SliceState& slice);
  void begin_capture(JobState& job);
  void prepare_spares(JobState& job);
  void return_spares(JobState& job);
  void take_image(JobState& job, SliceState& slice);
  void finish_capture(JobState& job);
  void serve(PeerId from, const DataMessage& message, const DataItems& batch, Outbox& out);
  void serve_item(PeerId from, const DataMessage& message, const DataItem& item, JobState& job,
                  Outbox& out);

  ShardId id_;
  BufferPool& pool_;
  BufferPool images_{Bytes(64ULL << 20U)};  // what rules keep: never sent, so not in shared memory
  const std::uint64_t slice_elements_;
  InitialValues* const initial_;
  std::shared_ptr<TableMemory> memory_;  // null: no limit
  std::map<JobId, JobState> jobs_;
  std::set<PeerId> greeted_;
  std::vector<ShardCapture> captures_;
  std::vector<SpareStock> stocks_;
  std::vector<SpareSurplus> surpluses_;
  std::vector<OpenedTables> opened_;
  TimePoint now_;  // when the message that is served came
  std::uint64_t dropped_ = 0;
  ShardQueues queues_;
};

}  // namespace taut::server
