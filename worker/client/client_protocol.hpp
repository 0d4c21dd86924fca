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
  /// Of updates that are kept for backups; at half of it their images are requested. See room().
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
/// acknowledged, what is being read, and when to send what again. No socket, thread or clock.
/// Thread    the client's own
class ClientProtocol {
 public:
  struct Outgoing {
    ShardId to;
    DataMessage message;
  };

  /// resend  what was not answered for so long is sent again
  ClientProtocol(ClientIdentity identity, std::vector<ShardId> shards, ResendPolicy resend,
                 SendPolicy send = {}, std::uint64_t slice_elements = SliceLayout::kSliceElements);

  /// Names the job's tables; the same list at every worker. Once.
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
  /// A newer read of the table takes its place.
  void read(TableId table, Clock clock, std::span<float> into);
  /// Reads rows of a table that is kept by rows, each bucket's into the places that it names. One
  /// read for a clock; a newer one of the table takes its place.
  /// into  [rows, width]
  void read_rows(TableId table, Clock clock, std::vector<RowRead> rows, std::span<float> into);
  /// Reads the newest values of rows; waits for no other worker.
  void snapshot_rows(TableId table, std::vector<RowRead> rows, std::span<float> into);
  /// Called with the values of a slice and where they are to be read into, instead of copying them
  /// there; not for snapshots. What was encoded is decoded first.
  using OnValues = std::function<void(std::span<float> into, const Frame& values)>;
  void on_values(OnValues take) { take_values_ = std::move(take); }
  /// Reads the newest whole table; waits for no other worker.
  void snapshot(TableId table, std::span<float> into);

  /// Another host serves this shard from now on, under this term: what its backup may not have is
  /// sent again, there. A term that is not higher changes nothing; returns whether it was.
  bool move(ShardId shard, std::uint64_t term, TimePoint now);
  /// Has the shards' backups brought up to what was pushed; see unsettled().
  void settle();
  /// Bytes of further updates that may be computed next to those that are held, which are at most
  /// those of one clock and max_kept, or of two clocks where that is more. No limit where max_kept
  /// has none, nor where a table is kept by rows: what such a clock pushes is not known.
  [[nodiscard]] std::uint64_t room() const;
  /// Slices of updates that would be lost with a shard's host: not acknowledged, or kept.
  [[nodiscard]] std::size_t unsettled() const { return unacknowledged_ + kept_; }

  /// Payloads to this shard are in shared memory, for the lifetime of its connection.
  void share_memory(ShardId shard) { links_[shard].shares_memory = true; }

  void handle(ShardId from, const DataMessage& message, TimePoint now);
  /// Marks what has waited too long to be sent again.
  void tick(TimePoint now);

  /// Whether take_outgoing() may have something; it may also have nothing yet.
  [[nodiscard]] bool has_outgoing() const;
  /// What is to be sent now, one message a shard: a push and the read that follows it are one item.
  [[nodiscard]] std::vector<Outgoing> take_outgoing(TimePoint now);
  [[nodiscard]] std::vector<CompletedRead> take_completed();
  /// Why this client cannot continue; nothing while it can.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  /// Pushes not yet acknowledged, in slices.
  [[nodiscard]] std::size_t unacknowledged() const { return unacknowledged_; }
  /// A shard that owes answers, and when it last said anything.
  struct Silence {
    ShardId shard;
    std::uint64_t term = 0;
    std::optional<TimePoint> since;  // nullopt if it has never said anything
  };
  /// The shard that owes answers and has been silent for longest; nullopt if none owes any.
  [[nodiscard]] std::optional<Silence> longest_silence() const;
  /// Whose next update a read of the table waits for, as far as its shards have said.
  [[nodiscard]] std::optional<WorkerId> read_waits_for(TableId table) const;
  /// Writes down what of it was sent and what waits; the messages are the caller's to count.
  void describe(ClientFigures& figures) const;

 private:
  enum class LinkState : std::uint8_t { kGreeting, kOpening, kReady };
  struct Link {
    LinkState state = LinkState::kGreeting;
    std::optional<TimePoint> sent;  // the greeting or opening under way
    int attempts = 0;
    bool is_early = false;                // as its host says, which does not serve the shard yet
    std::optional<TimePoint> last_heard;  // when it last said anything
    ClientFigures::UnderWay under_way;
    bool shares_memory = false;
    bool names_tables = false;  // it has not opened those of the hash
    std::uint64_t term = 0;
  };
  struct PendingPush {
    Clock from;  // the first clock that nothing was pushed for before it
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
    std::optional<WorkerId> waits_for;  // as its shard says
    RowRead rows = {};                  // of a bucket
  };
  struct PendingSettle {
    bool of_all = true;  // of what is still to be acknowledged too
    Clock clock;         // one past the last update that it was sent for
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
    Clock acknowledged;         // the highest done on this connection
    std::optional<Clock> next;  // the first clock that nothing was pushed for
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
  std::set<ShardId> unsent_;   // no hello, or no request to open the tables, was sent to it yet
  std::vector<TableSpec> tables_;
  pb::OpenTables by_hash_;             // the request to every shard
  pb::OpenTables by_name_;             // that to a shard that has not opened them yet
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
  bool was_ready_ = false;
  std::int64_t row_snapshots_ = 0;  // so far: each has its number in the place of a clock
  std::optional<Error> failure_;
};

}  // namespace taut
