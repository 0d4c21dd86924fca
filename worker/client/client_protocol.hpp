#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/compression.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "proto/pushed_update.hpp"
#include "worker/client/client_load.hpp"
#include "worker/client/resend_timer.hpp"
#include "worker/client/row_parts.hpp"
#include "worker/client/send_policy.hpp"

namespace taut {

/// A sender on the data plane.
struct ClientIdentity {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  std::string job_hash;
  /// Shards have backups: updates are kept until those have them too.
  bool replicated = false;
  /// Limit on updates kept for backups; at half of it their images are requested. See room().
  Bytes max_kept = Bytes(0);  // 0: no limit
};

/// A read of a whole table that has completed.
struct CompletedRead {
  TableId table;
  Clock clock;    // of the read
  Clock version;  // the lowest V of the table's slices
  bool snapshot = false;
  bool uniform = true;  // every slice had the same V
};

/// The worker's side of the data plane as a state machine: what was pushed and not yet
/// acknowledged, what is being read, and when to retransmit. No socket, thread or clock.
/// Thread    the client's own
class ClientProtocol {
 public:
  struct Outgoing {
    ShardId to;
    DataMessage message;
  };

  /// resend  after how long an unanswered request is sent again
  ClientProtocol(ClientIdentity identity, std::vector<ShardId> shards, ResendPolicy resend,
                 SendPolicy send = {}, std::uint64_t slice_elements = SliceLayout::kSliceElements);

  /// Sets the job's tables, the same list at every worker. Call it once.
  /// compression  the job's: how shards encode what is read
  void open(std::vector<TableSpec> tables, const Compression& compression = {});
  /// True once every shard has opened the tables.
  [[nodiscard]] bool ready() const;

  /// One update, kept until every shard has acknowledged its slices.
  /// slices  one for each slice of the table, of the same clock
  void push(TableId table, std::vector<Update> slices);
  /// Overload for [count] float32 that are sent as they are.
  void push(TableId table, const Update& update);
  /// Reads a table at `clock` into [count] floats, which stay the client's until it has completed.
  /// A newer read of the table replaces it.
  void read(TableId table, Clock clock, std::span<float> into);
  /// Reads rows of a table that is kept by rows, each bucket's into the places that it names. One
  /// read per clock; a newer one of the table replaces it.
  /// into  [rows, width]
  void read_rows(TableId table, Clock clock, std::vector<RowRead> rows, std::span<float> into);
  /// Reads the newest values of rows; waits for no other worker.
  void snapshot_rows(TableId table, std::vector<RowRead> rows, std::span<float> into);
  /// Called with the values of a slice and their destination, instead of copying them there; not
  /// for snapshots. Encoded values are decoded first.
  using OnValues = std::function<void(std::span<float> into, const Frame& values)>;
  void on_values(OnValues take) { take_values_ = std::move(take); }
  /// Reads the newest whole table; waits for no other worker.
  void snapshot(TableId table, std::span<float> into);

  /// Another host serves this shard from now on, under this term: updates that its backup may not
  /// have are sent again, to that host. If the term is not higher, returns false and does nothing.
  bool move(ShardId shard, std::uint64_t term, TimePoint now);
  /// Requests that the shards' backups catch up with all pushed updates; see unsettled().
  void settle();
  /// Bytes still available for new updates. Held updates take at most max_kept, or one clock's
  /// updates if larger, and one more clock. No limit without backups, if max_kept is 0, or if a
  /// table is kept by rows: how much a clock of it pushes is not known.
  [[nodiscard]] std::uint64_t room() const;
  /// Slices of updates that a shard's host may lose: not acknowledged, or kept for its backup.
  [[nodiscard]] std::size_t unsettled() const { return unacknowledged_ + kept_; }

  /// Payloads to this shard are in shared memory, for the lifetime of its connection.
  void share_memory(ShardId shard) { links_[shard].shares_memory = true; }

  void handle(ShardId from, const DataMessage& message, TimePoint now);
  /// Marks overdue requests, which are then sent again.
  void tick(TimePoint now);
  /// Pushes and other requests for slices that tick() has marked so far.
  [[nodiscard]] std::uint64_t resent() const { return resent_; }

  /// Whether take_outgoing() may have something; it may also have nothing yet.
  [[nodiscard]] bool has_outgoing() const;
  /// The messages to send now. A push and the read that follows it are one item.
  [[nodiscard]] std::vector<Outgoing> take_outgoing(TimePoint now);
  [[nodiscard]] std::vector<CompletedRead> take_completed();
  /// Why this client cannot continue; nullopt while it can.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  /// Pushes not yet acknowledged, in slices.
  [[nodiscard]] std::size_t unacknowledged() const { return unacknowledged_; }
  /// A shard that owes answers, and when its last message arrived.
  struct Silence {
    ShardId shard;
    std::uint64_t term = 0;
    std::optional<TimePoint> since;  // nullopt if none has arrived
  };
  /// The shard that owes answers and has been silent for longest; nullopt if none owes any.
  [[nodiscard]] std::optional<Silence> longest_silence() const;
  /// The worker that a read of the table waits for, if a shard has reported one.
  [[nodiscard]] std::optional<WorkerId> read_waits_for(TableId table) const;
  /// Writes the updates under way and those waiting into `figures`; the caller counts messages.
  void describe(ClientFigures& figures) const;

 private:
  enum class LinkState : std::uint8_t { kGreeting, kOpening, kReady };
  struct Link {
    LinkState state = LinkState::kGreeting;
    std::optional<TimePoint> sent;  // the greeting or opening under way
    int attempts = 0;
    bool is_early = false;                // its host replied that it does not serve the shard yet
    std::optional<TimePoint> last_heard;  // when its last message arrived
    ClientFigures::UnderWay under_way;
    bool shares_memory = false;
    bool names_tables = false;  // it did not know the hash: tables are sent by name
    std::uint64_t term = 0;
  };
  struct PendingPush {
    Clock from;  // the first clock that no earlier push covers
    Update update;
    std::optional<TimePoint> sent;
    int attempts = 0;
    std::optional<TimePoint> not_before;  // the shard requested a pause
  };
  struct PendingRead {
    Clock clock;
    std::span<float> into;
    std::optional<TimePoint> sent;
    int attempts = 0;
    std::optional<WorkerId> waits_for;  // as its shard reported
    RowRead rows = {};                  // of a bucket
  };
  struct PendingSettle {
    bool of_all = true;  // includes updates that are not acknowledged yet
    Clock clock;         // one past the last update that the sent request covers
    std::optional<TimePoint> sent;
    int attempts = 0;
  };
  struct SliceLink {
    Slice place;
    std::deque<PendingPush> pushes;  // ascending clocks
    std::deque<PendingPush> kept;    // acknowledged ones, which the backup may not have
    Clock sent_to;                   // one past the last that was sent to any host
    std::optional<PendingSettle> settle;
    std::optional<PendingRead> read;
    std::optional<PendingRead> snapshot;
    Clock acknowledged;         // the highest `done` received on this connection
    std::optional<Clock> next;  // the first clock without a push
    bool dirty = false;
    bool may_be_relieved = false;  // it is in `relievable_`
  };
  struct PendingTable {
    Clock clock;
    std::size_t slices_left = 0;
    Clock lowest;
    Clock highest;
  };

  void advance(ShardId shard, Link& link, LinkState state);
  void touch(SliceLink& slice);
  void mark_sent(SliceLink& slice, PendingPush& push, TimePoint now);
  void mark_unsent(const SliceLink& slice, PendingPush& push);
  [[nodiscard]] bool may_send(const SliceLink& slice, const PendingPush& push);
  void begin(TableId table, Clock clock, std::span<float> into, bool snapshot);
  void begin_rows(TableId table, Clock clock, std::vector<RowRead> rows, std::span<float> into,
                  bool snapshot);
  static void scatter(const DataItem& item, const PendingRead& read);
  void complete_part(SliceLink& slice, const DataItem& item, bool snapshot);
  [[nodiscard]] bool is_by_rows(TableId table) const {
    return tables_[table.value()].rows.has_value();
  }
  void handle_item(const DataItem& item, TimePoint now);
  void handle_refusal(SliceLink& slice, const DataItem& item, TimePoint now);
  void receive_value(SliceLink& slice, const DataItem& item);
  void acknowledge(SliceLink& slice, Clock done, TimePoint now);
  void let_go(SliceLink& slice, Clock stable);
  void note_relievable(SliceLink& slice);
  [[nodiscard]] bool limits_room() const {
    return identity_.replicated && identity_.max_kept.value() > 0 && !has_rows_;
  }
  void release(const SliceLink& slice, Clock clock);
  void relieve();
  void restart(ShardId shard);
  void rewind(ShardId shard);
  enum class Next : std::uint8_t { kItem, kNothing, kLater };  // later: the window is full
  Next next_item(SliceLink& slice, DataItem& item, TimePoint now);
  [[nodiscard]] DataItem item_of(const SliceLink& slice, DataItem::Kind kind, Clock clock) const;
  static void mark_requested(PendingRead& read, TimePoint now);
  [[nodiscard]] DataItem request(const SliceLink& slice, DataItem::Kind kind, PendingRead& read,
                                 TimePoint now);
  [[nodiscard]] DataItem send_push(SliceLink& slice, PendingPush& push, TimePoint now);
  struct Batch {  // a message's items
    DataItems items;
    std::size_t bytes = 0;
  };
  void add(DataItem item, ShardId shard, Batch& batch, std::vector<Outgoing>& out) const;
  void send(ShardId shard, Batch& batch, std::vector<Outgoing>& out) const;
  void put_in_order(std::vector<std::size_t>& slices) const;
  void greet_or_open(ShardId shard, Link& link, std::vector<Outgoing>& out, TimePoint now);
  void fail(ErrorCode code, std::string message);
  [[nodiscard]] DataMessage envelope() const;

  const ClientIdentity identity_;
  const std::vector<ShardId> shards_;
  const std::uint64_t slice_elements_;
  std::map<ShardId, ResendTimer> resend_;  // by shard: one may have a longer queue than others
  const SendPolicy send_;
  OnValues take_values_;  // empty: values are copied
  std::map<ShardId, Link> links_;
  std::size_t not_ready_ = 0;  // of the links
  std::set<ShardId> unsent_;   // shards whose hello or request to open the tables is not sent yet
  std::vector<TableSpec> tables_;
  pb::OpenTables by_hash_;             // the request to every shard
  pb::OpenTables by_name_;             // to a shard that does not know the hash
  std::vector<math::Encoding> pulls_;  // by table
  SliceLayout layout_;
  std::vector<SliceLink> slices_;  // by SliceLayout::index_of
  std::vector<std::size_t> dirty_;
  std::vector<PendingTable> reads_;      // by table
  std::vector<PendingTable> snapshots_;  // by table
  std::vector<CompletedRead> completed_;
  std::size_t unacknowledged_ = 0;
  std::size_t kept_ = 0;
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t clock_bytes_ = 0;  // of one clock's updates, before they are encoded
  bool has_rows_ = false;          // a table is kept by rows
  struct HeldUpdate {              // of a table, whose slices share its memory
    std::size_t slices_left = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::pair<TableId, Clock>, HeldUpdate> held_;  // where room is limited
  std::uint64_t held_bytes_ = 0;
  std::vector<std::size_t> relievable_;  // slices that keep updates, perhaps without a settlement
  std::uint64_t resent_ = 0;
  bool was_ready_ = false;
  std::int64_t row_snapshots_ = 0;  // so far: each one's number is sent in place of a clock
  std::optional<Error> failure_;
};

}  // namespace taut
