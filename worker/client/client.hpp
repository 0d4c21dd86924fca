#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/memory_pinning.hpp"
#include "common/net/message.hpp"
#include "common/net/shared_arena.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/client/client_load.hpp"
#include "worker/client/resend_timer.hpp"
#include "worker/client/send_policy.hpp"
#include "worker/client/update_encoding.hpp"

namespace taut {

class TimeSource;

/// Where a shard listens.
struct ShardAddress {
  ShardId shard;
  std::string address;
  std::uint64_t term = 0;  // rises when another host takes the shard over; 0: none ever does
};

/// What a member of a job needs to speak to its shards.
struct ClientOptions {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  std::string job_hash;
  std::vector<ShardAddress> shards;
  /// Shards have backups: updates are kept until those have them too.
  bool replicated = false;
  /// Bytes of such updates; at half of it their images are requested. 0: no limit.
  Bytes max_kept = Bytes(0);
  /// Where gradients are stored, and what a shard of the same machine maps; nullptr: they travel as
  /// bytes.
  std::shared_ptr<SharedArena> shared_memory;
  /// Of the values that shards lend, for a device that copies from them; nullptr: they stay as they
  /// are.
  std::shared_ptr<MemoryPinning> pinning;
  /// Where they are stored otherwise, and what snapshots are read into, until the last use, which
  /// may be after the client's end; nullptr: plain memory.
  std::shared_ptr<BufferAllocator> update_memory;
  /// Of all of this memory, for clients that share what is free; nullptr: the client has its own,
  /// with two clocks' worth that it keeps.
  std::shared_ptr<BufferPool> pool;
  /// What was not answered is sent again after the time that answers take, within these bounds.
  ResendPolicy resend{Duration(1'000'000), Duration(200'000), Duration(10'000'000)};
  SendPolicy send;
  UpdateEncoding encoding{};  // as the job's compression says, or what is sent does not fit
  /// What this member's update of a clock counts, above 0; empty: 1. Thread: any.
  std::function<float(Clock)> weight;
  std::shared_ptr<ClientLoad> load = std::make_shared<ClientLoad>();  // nullptr: not kept
  /// Whether the client runs a dedicated thread. If false, bytes move only while the caller waits,
  /// and in Client::work().
  bool own_thread = true;
  TimeSource* time = nullptr;  // outlives the client; nullptr: the machine's
};

class ClientDriver;

/// A read that has completed.
struct ReadResult {
  Clock clock;    // of the read
  Clock version;  // the lowest V of the table's slices: the staleness is clock - version
};

/// How stale the reads were: staleness in clocks, and how many reads had it.
using StalenessHistogram = std::map<std::int64_t, std::uint64_t>;

/// Tables in a parameter server: opens them, pushes updates, reads values under the job's staleness
/// bound. Calls that take no `wait` return at once. Bytes move while the caller waits, and on the
/// client's dedicated thread otherwise.
/// Thread    one caller, the same for all calls; push() and push_and_read() by a second one
class Client {
 public:
  /// endpoint  unconnected; the client's from now on
  Client(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Opens the job's tables at every shard; all workers name the same.
  /// Errors    timeout (which shards did not answer), mismatch (both sides' values)
  [[nodiscard]] Result<void> open(std::vector<TableSpec> tables, Duration wait);
  /// open() in steps: begin_open(), then await_open() until it returns true; false: some shards
  /// have not answered yet.
  /// at_most  how long one step may wait
  void begin_open(std::vector<TableSpec> tables);
  [[nodiscard]] Result<bool> await_open(Duration wait, Duration at_most);

  /// Memory for an update; pushed memory is never copied, but where the job compresses the table's
  /// updates: those are encoded before push() returns.
  [[nodiscard]] Buffer gradient_buffer(TableId table);

  /// Whether updates reach a shard without travelling as bytes. Thread: any.
  [[nodiscard]] bool shares_memory() const;
  /// As ClientOptions says.
  [[nodiscard]] const std::shared_ptr<MemoryPinning>& pinning() const { return pinning_; }

  /// Pushes this worker's update of a table at `clock`.
  /// gradient  [count] float32 from gradient_buffer(); not to be written again
  /// norm      the norm that the rule requires (math::UpdateNorm), otherwise 0
  void push(TableId table, Clock clock, const Buffer& gradient, float norm = 0);

  /// The same, and at once the read for the next clock, as one message.
  void push_and_read(TableId table, Clock clock, const Buffer& gradient, std::span<float> into,
                     float norm = 0);
  /// Overload for borrowed memory: it travels as bytes to every shard, and the client holds a
  /// reference to the frame until every shard has acknowledged it. Whichever thread drops the last
  /// reference frees it.
  void push_and_read(TableId table, Clock clock, const Frame& gradient, std::span<float> into);

  /// Reads a table at `clock`; `into` may be written, on any thread, until wait() or close()
  /// returns.
  void read(TableId table, Clock clock, std::span<float> into);

  /// Pushes this worker's update at `clock` of a table that is kept by rows. All of its buckets are
  /// pushed, those of which no row is named too: once at each clock.
  /// rows       ascending, below the table's
  /// gradients  [rows, width]; copied
  /// Errors     invalid: rows that the table lacks, that do not ascend, or that are too many for
  ///            one push of a bucket; nothing is pushed then
  [[nodiscard]] Result<void> push_rows(TableId table, Clock clock,
                                       std::span<const std::uint64_t> rows,
                                       std::span<const float> gradients, float norm = 0);
  /// Reads rows of such a table at `clock`; wait() is for all of them. One read for a clock.
  /// rows    any, in any order; copied
  /// into    [rows, width], in the order of the numbers; as read()'s
  /// Errors  as push_rows()
  [[nodiscard]] Result<void> read_rows(TableId table, Clock clock,
                                       std::span<const std::uint64_t> rows, std::span<float> into);
  /// snapshot() of rows; buckets may have different versions.
  [[nodiscard]] Result<ReadResult> snapshot_rows(TableId table, std::span<const std::uint64_t> rows,
                                                 std::span<float> into, Duration wait);

  /// Waits for the read of a table at `clock`: for others' updates as long as they take.
  /// wait      the longest silence allowed of a shard that owes an answer
  /// Errors    timeout, with the shard and its address; stale (this worker was declared
  ///           lost); mismatch; closed
  [[nodiscard]] Result<ReadResult> wait(TableId table, Clock clock, Duration wait);

  /// Overload that returns after `at_most` at the latest; nullopt: the read has not completed yet.
  [[nodiscard]] Result<std::optional<ReadResult>> wait(TableId table, Clock clock, Duration wait,
                                                       Duration at_most);

  /// Called for each read that has completed, before wait() returns it, by whichever thread
  /// works for the client, under the client's lock: it calls nothing on the client, waits for
  /// nothing and throws nothing. Once this returns, what was named before is not called any more.
  using OnRead = std::function<void(TableId table, Clock clock)>;
  void on_read(OnRead notify);

  /// Called with the values that a read has got for a part of its memory, instead of copying them
  /// there; by whichever thread works for the client, as on_read()'s. Snapshots are always copied.
  /// What was encoded is decoded first. Values that a shard lends it may change once the last copy
  /// of the frame is gone.
  using OnValues = std::function<void(std::span<float> into, const Frame& values)>;
  void on_values(OnValues take);

  /// Reads the newest whole table, as a reader that is not a member; waits for no worker. Where
  /// slices had different versions it asks again, a few times at most.
  [[nodiscard]] Result<ReadResult> snapshot(TableId table, std::span<float> into, Duration wait);
  /// Overload that returns after `at_most` at the latest; nullopt: it is not complete yet.
  /// A later call with the same table and memory continues it; any other call starts a new one.
  [[nodiscard]] Result<std::optional<ReadResult>> snapshot(TableId table, std::span<float> into,
                                                           Duration wait, Duration at_most);

  /// Shards are served elsewhere from now on: those with a higher term than before. Thread: any.
  void move_shards(std::vector<ShardAddress> shards);

  /// Waits until at most so many slices of updates are not acknowledged; by default none, and none
  /// that a shard's backup lacks.
  [[nodiscard]] Result<void> flush(Duration wait, std::size_t slices = 0);
  /// flush() of all slices that returns after `at_most` at the latest: whether it is done.
  [[nodiscard]] Result<bool> flush_for(Duration wait, Duration at_most);

  /// Of all reads that wait() has returned.
  [[nodiscard]] const StalenessHistogram& staleness() const;
  /// Payload bytes so far.
  struct Traffic {
    std::uint64_t pushed = 0;  // as they were encoded
    std::uint64_t read = 0;
    std::uint64_t saved = 0;       // that the pushed ones would have had in addition as float32
    std::uint64_t read_saved = 0;  // that those read would have had in addition
  };
  [[nodiscard]] Traffic traffic() const;

  /// For a member that leaves: from now on updates are sent with all that compression has left out
  /// of earlier ones. Thread: any.
  void send_rest();
  [[nodiscard]] bool sends_rest() const;
  /// Whether compression leaves something out of updates.
  [[nodiscard]] bool leaves_out() const;
  [[nodiscard]] bool keeps_residuals() const;
  /// What is left out of the updates before `clock`, of which `start` was the first. Thread: any.
  /// Errors    timeout: some of them were not pushed within the wait
  [[nodiscard]] Result<Residuals> residuals(Clock start, Clock clock, Duration wait);
  /// Continues with what another member has left out, before any update; false: of other tables.
  [[nodiscard]] bool restore(Residuals residuals);

  /// Moves what can move at once, for a client without its own thread: to be called whenever
  /// its endpoint is woken or has messages, and at least every 100 ms. While the caller waits it
  /// does nothing.
  void work();

  /// Makes waits return with closed, now and from now on. Thread: any.
  void cancel();

  /// Ends the client's thread: once it returns, no memory handed to read() is written any more.
  void close();

 private:
  /// A snapshot that a bounded call has not ended.
  struct UnderWay {
    TableId table;
    std::span<float> into;
    Buffer values;
    int tries = 0;
  };
  void begin_snapshot();

  std::unique_ptr<ClientDriver> driver_;
  std::optional<UnderWay> snapshot_;
  std::vector<TableSpec> tables_;
  const bool shares_pool_;
  const std::shared_ptr<MemoryPinning> pinning_;
  std::shared_ptr<void> gradient_memory_;  // two clocks' worth, which its own pool keeps
  StalenessHistogram staleness_;
};

}  // namespace taut
