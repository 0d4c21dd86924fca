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
  std::uint64_t term = 0;  // increases at each failover; 0: never fails over
};

/// Connection settings of a job member.
struct ClientOptions {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  std::string job_hash;
  std::vector<ShardAddress> shards;
  /// Whether shards have backups: updates are then kept until the backups have them too.
  bool replicated = false;
  /// Limit on the bytes of such updates; at half of it the client requests images. The client keeps
  /// up to this limit, or one clock's updates if larger, and one more clock in addition. 0: no
  /// limit.
  Bytes max_kept = Bytes(0);
  /// How long gradient_buffer() and update_buffer() wait for that room. Backups normally catch up
  /// sooner, unless a server is lost and its successor's images take long.
  Duration max_room_wait{10'000'000};
  /// Where gradients are stored; a shard on the same machine maps this memory. nullptr: gradients
  /// are sent as bytes.
  std::shared_ptr<SharedArena> shared_memory;
  /// Pins the values that shards lend, for a device that copies from them; nullptr: no pinning.
  std::shared_ptr<MemoryPinning> pinning;
  /// Where gradients and snapshots are stored without shared memory. It is used until the last
  /// buffer is freed, perhaps after the client is destroyed; nullptr: plain memory.
  std::shared_ptr<BufferAllocator> update_memory;
  /// The pool of all of this memory, for clients that share free buffers; nullptr: the client has
  /// its own, which keeps two clocks' worth.
  std::shared_ptr<BufferPool> pool;
  /// Unanswered requests are retransmitted after a measured timeout, within these bounds.
  ResendPolicy resend{Duration(1'000'000), Duration(200'000), Duration(10'000'000)};
  SendPolicy send;
  UpdateEncoding encoding{};  // must match the job's compression
  /// The weight of this member's update of a clock, above 0; empty: 1. Thread: any.
  std::function<float(Clock)> weight;
  std::shared_ptr<ClientLoad> load = std::make_shared<ClientLoad>();  // nullptr: not counted
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

/// Counts a read that was `staleness` clocks old. From 1024 on, staleness is rounded down to ten
/// binary digits: without a bound, a worker that is faster than another one has a larger staleness
/// at each clock, and the histogram is sent with each heartbeat.
void count_read(StalenessHistogram& reads, std::int64_t staleness);

/// Tables in a parameter server: opens them, pushes updates, and reads values under the job's
/// staleness bound. Calls that take no `wait` return at once, except gradient_buffer() and
/// update_buffer(). Bytes move while the caller waits, and on the client's dedicated thread
/// otherwise.
/// Thread    one caller, the same for all calls; push() and push_and_read() by a second one
class Client {
 public:
  /// endpoint  unconnected; the client takes ownership
  Client(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Opens the job's tables at every shard; all workers name the same tables.
  /// Errors    timeout (which shards did not answer), mismatch (both sides' values)
  [[nodiscard]] Result<void> open(std::vector<TableSpec> tables, Duration wait);
  /// open() in steps: begin_open(), then await_open() until it returns true. It returns false if
  /// some shards have not answered yet.
  /// at_most  the longest wait of one step
  void begin_open(std::vector<TableSpec> tables);
  [[nodiscard]] Result<bool> await_open(Duration wait, Duration at_most);

  /// Memory for an update. Pushed memory is never copied, unless the job compresses the table's
  /// updates: those are encoded before push() returns. If updates kept for backups leave no room,
  /// waits for the backups, at most ClientOptions::max_room_wait; after a timeout it does not wait
  /// again until an update at least as large has room.
  [[nodiscard]] Buffer gradient_buffer(TableId table);

  /// Whether updates reach some shard through shared memory. Thread: any.
  [[nodiscard]] bool shares_memory() const;
  /// See ClientOptions.
  [[nodiscard]] const std::shared_ptr<MemoryPinning>& pinning() const { return pinning_; }

  /// Pushes this worker's update of a table at `clock`.
  /// gradient  [count] float32 from gradient_buffer(); not to be written again
  /// norm      the norm that the rule requires (math::UpdateNorm), otherwise 0
  void push(TableId table, Clock clock, const Buffer& gradient, float norm = 0);

  /// push() together with the read for the next clock, as one message.
  void push_and_read(TableId table, Clock clock, const Buffer& gradient, std::span<float> into,
                     float norm = 0);
  /// Overload for borrowed memory: it is sent as bytes to every shard, and the client holds a
  /// reference to the frame until every shard has acknowledged it. The thread that drops the last
  /// reference frees it.
  void push_and_read(TableId table, Clock clock, const Frame& gradient, std::span<float> into);

  /// For a device that encodes updates before they are copied to the host: how a table's update of
  /// a clock is encoded there. Float32: only push_and_read() encodes it. Thread: any.
  [[nodiscard]] TableEncoding encoding_of(TableId table, Clock clock) const;
  /// Memory for an encoded update of `bytes` bytes. Waits as gradient_buffer() does.
  [[nodiscard]] Buffer update_buffer(std::size_t bytes);
  /// push_and_read() of an update encoded as encoding_of() says, or of a float32 one that includes
  /// all residuals.
  /// memory  [encoding.bytes] from update_buffer(); not to be written again
  void push_encoded_and_read(TableId table, Clock clock, const Buffer& memory,
                             const TableEncoding& encoding, std::span<float> into, float norm = 0);
  /// Returns what a table's updates have left out so far. The caller keeps it from now on, and
  /// residuals() gets it from `source`. Call it before the table's first update.
  [[nodiscard]] std::vector<float> hand_over_residual(TableId table, ResidualSource source);
  /// Stops calling the sources.
  void forget_residual_sources();

  /// Reads a table at `clock`; `into` may be written, on any thread, until wait() or close()
  /// returns.
  void read(TableId table, Clock clock, std::span<float> into);

  /// Pushes this worker's update at `clock` of a table that is kept by rows. All buckets are pushed
  /// once per clock, even empty ones.
  /// rows       ascending, less than the table's number of rows
  /// gradients  [rows, width]; copied
  /// Errors     invalid: rows outside the table, not ascending, or too many for one push of a
  ///            bucket; nothing is pushed then
  [[nodiscard]] Result<void> push_rows(TableId table, Clock clock,
                                       std::span<const std::uint64_t> rows,
                                       std::span<const float> gradients, float norm = 0);
  /// Reads rows of such a table at `clock`; wait() waits for all of them. One read per clock.
  /// rows    any, in any order; copied
  /// into    [rows, width], in the order of `rows`; written as read()'s
  /// Errors  as push_rows()
  [[nodiscard]] Result<void> read_rows(TableId table, Clock clock,
                                       std::span<const std::uint64_t> rows, std::span<float> into);
  /// snapshot() of rows; buckets may have different versions.
  [[nodiscard]] Result<ReadResult> snapshot_rows(TableId table, std::span<const std::uint64_t> rows,
                                                 std::span<float> into, Duration wait);

  /// Waits for the read of a table at `clock`, without a limit for other workers' updates.
  /// wait      the longest silence of a shard that owes an answer
  /// Errors    timeout, with the shard and its address; stale (this worker was declared
  ///           lost); mismatch; closed
  [[nodiscard]] Result<ReadResult> wait(TableId table, Clock clock, Duration wait);

  /// Overload that returns after `at_most` at the latest; nullopt if the read has not completed.
  [[nodiscard]] Result<std::optional<ReadResult>> wait(TableId table, Clock clock, Duration wait,
                                                       Duration at_most);

  /// Called for each completed read, before wait() returns it, on the thread that does the client's
  /// work, under the client's lock: it must not call the client, block or throw. Once this returns,
  /// the previous callback is no longer called.
  using OnRead = std::function<void(TableId table, Clock clock)>;
  void on_read(OnRead notify);

  /// Called with the values that a read got for a part of its memory, instead of copying them
  /// there; under the same conditions as on_read()'s callback. Snapshots are always copied. Encoded
  /// values are decoded first. A shard may overwrite values that it lends once the last copy of the
  /// frame is gone.
  using OnValues = std::function<void(std::span<float> into, const Frame& values)>;
  void on_values(OnValues take);

  /// Reads the newest values of a whole table, as a non-member, without waiting for workers. If
  /// slices have different versions it retries a few times.
  [[nodiscard]] Result<ReadResult> snapshot(TableId table, std::span<float> into, Duration wait);
  /// Overload that returns after `at_most` at the latest; nullopt if it is not complete yet.
  /// A later call with the same table and memory continues it; any other call starts a new one.
  [[nodiscard]] Result<std::optional<ReadResult>> snapshot(TableId table, std::span<float> into,
                                                           Duration wait, Duration at_most);

  /// Redirects to the new addresses of those shards whose term is higher than before. Thread: any.
  void move_shards(std::vector<ShardAddress> shards);

  /// Waits until at most `slices` slices of updates are unacknowledged. With 0 it also waits until
  /// no backup lacks one.
  [[nodiscard]] Result<void> flush(Duration wait, std::size_t slices = 0);
  /// As flush() of all slices, for at most `at_most`; returns whether it is done.
  [[nodiscard]] Result<bool> flush_for(Duration wait, Duration at_most);

  /// The staleness of all reads that wait() has returned.
  [[nodiscard]] const StalenessHistogram& staleness() const;
  /// Payload bytes so far, and requests that were sent again because no answer had come in time: of
  /// pushes and reads, not of how the tables are opened.
  struct Traffic {
    std::uint64_t pushed = 0;  // after encoding
    std::uint64_t read = 0;
    std::uint64_t saved = 0;       // bytes that the pushes would have taken in addition as float32
    std::uint64_t read_saved = 0;  // bytes that the reads would have taken in addition
    std::uint64_t resent = 0;      // requests
  };
  [[nodiscard]] Traffic traffic() const;

  /// For a leaving member: later updates include all that compression has left out of earlier ones.
  /// Thread: any.
  void send_rest();
  [[nodiscard]] bool sends_rest() const;
  /// Whether compression leaves something out of updates.
  [[nodiscard]] bool leaves_out() const;
  [[nodiscard]] bool keeps_residuals() const;
  /// What is left out of the updates before `clock`, of which `start` was the first. Thread: any,
  /// or the compute thread if a device encodes.
  /// Errors    timeout: some of those updates were not pushed within the wait; unavailable: a
  ///           device that keeps some of it failed
  [[nodiscard]] Result<Residuals> residuals(Clock start, Clock clock, Duration wait);
  /// Starts from the residuals of another member; call it before any update. Returns false if they
  /// belong to other tables.
  [[nodiscard]] bool restore(Residuals residuals);

  /// Does the work that needs no waiting, for a client without its own thread. Call it whenever its
  /// endpoint is woken or has messages, and at least every 100 ms. It does nothing while the caller
  /// waits.
  void work();

  /// Makes current and later waits return with closed. Thread: any.
  void cancel();

  /// Ends the client's thread. After it returns, memory passed to read() is no longer written.
  void close();

 private:
  /// A snapshot that a call with `at_most` has not completed.
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
  std::shared_ptr<void> gradient_memory_;  // two clocks' worth, kept by the client's own pool
  StalenessHistogram staleness_;
};

}  // namespace taut
