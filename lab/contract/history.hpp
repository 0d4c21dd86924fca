#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"
#include "proto/data_message.hpp"

namespace taut::sim {

/// One event, as seen from outside the state machines.
struct Event {
  enum class Kind : std::uint8_t {
    kView,       // a shard took over what the coordinator published: `view`
    kGreeted,    // a shard accepted a connection's hello, without which it serves nothing
    kOpened,     // a shard accepted the tables, now or again
    kRequest,    // a shard received a request for one item
    kReply,      // a shard sent one item
    kStep,       // the shard has sent all replies to the last step
    kReadsFrom,  // a member received its first clock
    kPushed,     // a worker handed a table's update to its client
    kReading,    // a worker requested a table from its client
    kRead,       // the table arrived
    kFinished,   // a worker knows that everything it pushed was accepted
    kFailed,     // a worker's client gave up
    // A shard put a slice aside for the checkpoint `view` at `clock`; the values are the slice's,
    // followed by done(w) of each member, below 0 if there is none.
    kPutAside,
    kTookOver,   // a host starts to serve a slice from its images
    kGaveAway,   // a host no longer serves a slice: another one does, or will
    kMissed,     // a shard could not capture a slice for the checkpoint `view`, ordered too late
    kConfirmed,  // a shard took a follower's confirmation of `version`; `incarnation` names it
    kFollowed,   // a follower's program took a table of a model of `version`
    kEnd,        // the run is over; `done`: the job ended well
  };
  Kind kind = Kind::kStep;
  TimePoint at;
  ShardId shard;
  PeerId peer;
  WorkerId worker;
  Incarnation incarnation;
  DataItem::Kind item = pb::DataItem::UNKNOWN;
  DataItem::Refusal refusal = pb::DataItem::NONE;
  bool is_plain = false;  // a push that is not encoded
  /// A push of rows that the shard has no room for: it must be sent again.
  bool is_postponed = false;
  TableId table;
  SliceId slice;
  Clock clock;
  Clock version;
  Clock done;
  Clock stable;                    // kReply
  float weight = 1;                // of a push in a request
  std::uint32_t first_record = 0;  // kPushed, of a job that balances: of the worker's part
  std::uint32_t records = 0;       // of it
  std::uint32_t view = 0;          // of History::views()
  std::uint32_t values_begin = 0;  // of History::values(); [values_end - values_begin]
  std::uint32_t values_end = 0;
  // Into History::rows(), for a table by rows: the rows that a request, kPushed, kReading or kRead
  // names; for kPutAside the rows that are kept.
  std::uint32_t rows_begin = 0;
  std::uint32_t rows_end = 0;
};

/// One readable line.
[[nodiscard]] std::string describe(const Event& event);

/// Everything that happened, in order: the part that the reader has not taken yet, and a hash of
/// the whole. The same run has the same hash.
class History {
 public:
  using Reader = std::function<void(const History&)>;
  explicit History(Reader reader) : reader_(std::move(reader)) {}

  void add(const Event& event, std::span<const float> values = {},
           std::span<const std::uint64_t> rows = {});
  void add_view(TimePoint at, ShardId shard, const pb::ServerJob& view);
  /// One message to or from a shard.
  void add_items(Event::Kind kind, TimePoint at, ShardId shard, PeerId peer,
                 const DataMessage& message) {
    add_items(kind, at, shard, peer, message, {});
  }
  /// Overload for a message to a shard that has postponed some of its pushes.
  using Push = std::tuple<TableId, SliceId, Clock>;
  void add_items(Event::Kind kind, TimePoint at, ShardId shard, PeerId peer,
                 const DataMessage& message, const std::set<Push>& postponed);
  /// Passes the rest to the reader.
  void finish();

  [[nodiscard]] std::span<const Event> events() const { return events_; }
  [[nodiscard]] const std::vector<pb::ServerJob>& views() const { return views_; }
  [[nodiscard]] std::span<const float> values(const Event& event) const {
    return std::span(values_).subspan(event.values_begin, event.values_end - event.values_begin);
  }
  [[nodiscard]] std::span<const std::uint64_t> rows(const Event& event) const {
    return std::span(rows_).subspan(event.rows_begin, event.rows_end - event.rows_begin);
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  void mix(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3ULL; }

  Reader reader_;
  std::vector<Event> events_;
  std::vector<float> values_;
  std::vector<std::uint64_t> rows_;
  std::vector<pb::ServerJob> views_;
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace taut::sim
