#pragma once

#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "common/time_source.hpp"
#include "worker/client/client.hpp"
#include "worker/client/client_protocol.hpp"
#include "worker/client/row_parts.hpp"
#include "worker/client/shard_connections.hpp"
#include "worker/client/update_encoder.hpp"

namespace taut {

/// Moves a client protocol's messages over an endpoint. One thread at a time leads: it owns the
/// endpoint, sends, and waits for answers. A caller that waits for an answer leads while it waits:
/// handing a small answer from one thread to another costs more than the answer. While no caller
/// waits, the driver's own thread leads, or the caller of work() if there is none.
/// Source    Schmidt et al., "Leader/Followers: A Design Pattern for Efficient Multi-threaded Event
///           Demultiplexing and Dispatching", PLoP 2000
/// Thread    one caller in addition to the driver's own; pushes and cancel() from any
class ClientDriver {
 public:
  ClientDriver(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options);
  ~ClientDriver() { close(); }
  ClientDriver(const ClientDriver&) = delete;
  ClientDriver& operator=(const ClientDriver&) = delete;

  void open(std::vector<TableSpec> tables);
  void push(TableId table, Clock clock, const Buffer& gradient, float norm);
  /// push(), and read() for the next clock.
  void push_and_read(TableId table, Clock clock, const Frame& gradient, std::span<float> into,
                     float norm);
  /// As the Client's.
  void push_encoded_and_read(TableId table, Clock clock, const Buffer& memory,
                             const TableEncoding& encoding, std::span<float> into, float norm);
  void read(TableId table, Clock clock, std::span<float> into);
  /// As the Client's.
  [[nodiscard]] Result<void> push_rows(const TableSpec& table, Clock clock,
                                       std::span<const std::uint64_t> rows,
                                       std::span<const float> gradients, float norm);
  void read_rows(TableId table, Clock clock, std::vector<RowRead> rows, std::span<float> into);
  /// values  as snapshot()'s
  void snapshot_rows(TableId table, std::vector<RowRead> rows, const Buffer& values);
  /// As Client::on_read.
  void on_read(Client::OnRead notify);
  /// As Client::on_values.
  void on_values(Client::OnValues take);
  /// values  kept until the next snapshot of the table: a late answer must find it
  void snapshot(TableId table, const Buffer& values);

  /// wait      the longest silence of a shard that owes an answer; while it answers, there is no
  ///           limit: other workers' updates are awaited as long as those are members
  /// at_most   after this long it returns false or nullopt; a later call continues the wait, with
  ///           its deadline
  /// Errors    of all of these: timeout; closed (cancelled); whatever the protocol failed with
  [[nodiscard]] Result<bool> await_open(Duration wait, Duration at_most);
  [[nodiscard]] Result<CompletedRead> await_read(TableId table, Clock clock, Duration wait);
  [[nodiscard]] Result<std::optional<CompletedRead>> await_read(TableId table, Clock clock,
                                                                Duration wait, Duration at_most);
  [[nodiscard]] Result<std::optional<CompletedRead>> await_snapshot(TableId table, Duration wait,
                                                                    Duration at_most);
  /// slices  how many may remain unacknowledged
  [[nodiscard]] Result<void> await_acknowledged(std::size_t slices, Duration wait);
  /// Waits for backups while an update of this size has no room next to those kept for them, at
  /// most ClientOptions::max_room_wait; after a timeout it does not wait again until an update at
  /// least as large has room. Thread: the caller's.
  void await_room(Bytes update);
  /// Waits until all updates are acknowledged and no backup lacks one.
  [[nodiscard]] Result<bool> await_settled(Duration wait, Duration at_most);

  [[nodiscard]] BufferPool& pool() { return *pool_; }
  [[nodiscard]] UpdateEncoder& encoder() { return encoder_; }
  [[nodiscard]] bool shares_memory() const { return shares_memory_; }
  [[nodiscard]] Client::Traffic traffic() const {
    return {pushed_, received_, saved_, received_saved_, resent_};
  }

  /// As Client::work.
  void work();
  /// As Client::move_shards.
  void move_shards(std::vector<ShardAddress> shards);

  /// Makes current and later waits return with closed. Thread: any.
  void cancel();
  /// Ends the driver's thread.
  void close();

 private:
  /// A wait, which may span several calls, one after the other.
  struct Waiting {
    TimePoint begin;
    TimePoint report_at;
    TableId table = {};  // of a read
    Clock clock{-1};
  };
  [[nodiscard]] Waiting waiting_from_now() const;
  /// Waits until `done`, which is called under the lock, returns true.
  /// what  describes the wait in logs and errors
  template <class Done, class Describe>
  Result<void> await(Waiting& waiting, Duration wait, const Done& done, const Describe& what);
  /// As await(), for at most `at_most`; returns whether it is done. Once it is done or has failed,
  /// `waiting` is reset.
  template <class Done, class Describe>
  Result<bool> await_step(std::optional<Waiting>& waiting, Duration wait, Duration at_most,
                          const Done& done, const Describe& what);
  void run();
  enum class Leader : std::uint8_t { kCaller, kThread };
  void round(std::unique_lock<std::mutex>& lock, Leader leader, Duration patience);
  void take(const Incoming& incoming);
  void move(const ShardAddress& shard);
  void collect();
  void expect_work();
  void wake_leader();
  /// Requests of callers that the leader has not seen yet.
  struct Request {
    enum class Kind : std::uint8_t { kOpen, kPush, kPushRead, kRead, kSnapshot };
    Kind kind = Kind::kOpen;
    TableId table;
    Clock clock;
    std::vector<Update> updates;  // a push's, one for each slice
    Buffer memory;                // what a snapshot is read into
    std::span<float> into;
    std::vector<TableSpec> tables;
    std::vector<RowRead> rows = {};  // of a read or snapshot by rows
  };
  [[nodiscard]] std::vector<Update> encode(TableId table, Clock clock, const Frame& gradient,
                                           float norm);
  [[nodiscard]] std::vector<Update> weighed(std::vector<Update> updates, Clock clock,
                                            std::size_t whole);
  class CallerHere;
  void post(Request request, bool may_wait = false);
  [[nodiscard]] bool may_wait(Clock clock, std::size_t bytes);
  void drain();
  void execute(Request& request);
  void hand_over(ShardId shard, DataMessage message);
  /// Bytes that an encoding saves; 0 if it is longer, as INT8 is for a single value.
  [[nodiscard]] static std::uint64_t spared(std::uint64_t bytes, std::uint64_t encoded);
  void note_read(TableId table);
  void note_load();
  void look_for_silence(const Waiting& waiting, TimePoint now, Duration limit);
  void note_silence(std::optional<SilentShard> shard);

  TimeSource& time_;
  const bool has_thread_;
  std::unique_ptr<Endpoint> endpoint_;  // the leader's
  ShardConnections connections_;        // the leader's; move() and address_of() under the lock
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ClientLoad> load_;
  ClientFigures figures_;                    // the leader's
  std::atomic<bool> shares_memory_ = false;  // with a shard
  std::atomic<std::uint64_t> pushed_ = 0;
  std::atomic<std::uint64_t> received_ = 0;
  std::atomic<std::uint64_t> saved_ = 0;
  std::atomic<std::uint64_t> room_ = std::numeric_limits<std::uint64_t>::max();  // the protocol's
  const Duration max_room_wait_;
  std::uint64_t without_room_ = 0;  // the caller's: bytes of the update whose wait timed out
  std::atomic<std::uint64_t> received_saved_ = 0;
  std::atomic<std::uint64_t> resent_ = 0;  // the protocol's
  // The caller's waits with `at_most` that have not ended yet.
  std::optional<Waiting> open_wait_;
  Duration making_values_{};  // added to the silence allowed while the tables are opened
  std::optional<Waiting> read_wait_;
  std::optional<Waiting> snapshot_wait_;
  std::optional<Waiting> settle_wait_;
  const std::vector<ShardId> shards_;
  // Of the thread that pushes: one at a time.
  UpdateEncoder encoder_;
  const std::function<float(Clock)> weight_;  // of an update; empty: 1
  std::size_t tables_ = 0;                    // that are pushed
  std::size_t tables_pushed_ = 0;             // at clock_pushed_
  Clock clock_pushed_{-1};

  // Held for a few instructions only: a push waits for no copy.
  std::mutex inbox_mutex_;
  std::vector<Request> inbox_;
  // The leader waits in the endpoint and was not woken; without a thread, work() is not due.
  bool asleep_ = false;
  int callers_ = 0;  // that wait

  mutable std::mutex mutex_;       // guards all below
  bool has_named_silent_ = false;  // load_ has the silent shard
  std::condition_variable changed_;
  ClientProtocol protocol_;
  std::vector<CompletedRead> reads_;        // the newest completed of each table
  std::vector<CompletedRead> snapshots_;    // the newest completed of each table
  std::vector<Buffer> snapshot_memory_;     // of each table
  std::map<TableId, TimePoint> requested_;  // when each read under way started, for the timeline
  Client::OnRead notify_;                   // of reads that have completed
  bool led_ = false;                        // some thread leads
  bool caller_waits_ = false;
  TimePoint callers_until_;  // the thread leaves the lead to callers until then
  TimePoint last_tick_;
  std::optional<Error> refused_;  // a shard does not accept this side's key
  bool cancelled_ = false;
  bool stopping_ = false;
  std::vector<ShardAddress> moves_;  // for the leader
  std::thread thread_;
};

}  // namespace taut
