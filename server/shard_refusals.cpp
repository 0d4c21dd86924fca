// Which items of members and readers a shard refuses: for good, or so that they are sent again.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/failpoint.hpp"
#include "server/item_replies.hpp"
#include "server/shard.hpp"
#include "server/tables/bucket_numbers.hpp"

namespace taut::server {
namespace {

// How many clocks of updates a slice holds beyond the slack: the one pushed before the read that
// waits, and one more.
constexpr std::uint64_t kHeldClocks = 2;

/// Why an item does not fit how its table is kept, by rows or not; empty if it fits. A push's rows
/// must ascend, as its sums would depend on their order.
std::string refusal_of_rows(const DataItem& item, const Slice& place, const TableSpec& table) {
  const bool names_rows =
      is_push(item) || item.kind == pb::DataItem::READ || item.kind == pb::DataItem::SNAPSHOT;
  if (item.by_rows != table.rows.has_value() && (names_rows || item.by_rows)) {
    return fmt::format("table {} {} by rows, and the item {}", table.id.value(),
                       table.rows ? "is kept" : "is not kept", item.by_rows ? "is" : "is not");
  }
  if (table.rows && item.kind == pb::DataItem::FOLLOW) {
    return fmt::format("table {} is kept by rows, which cannot be followed", table.id.value());
  }
  if (!item.by_rows) return {};
  if (item.count != place.count) {
    return fmt::format("a row of table {} has {} values, not {}", table.id.value(), place.count,
                       item.count);
  }
  const std::uint64_t most = table.rows->clock_rows;
  if (most > 0 && item.rows > most && item.kind != pb::DataItem::SNAPSHOT) {
    return fmt::format("the item names {} rows of table {}, whose clock_rows are {}", item.rows,
                       table.id.value(), most);
  }
  return misfit_of_numbers(table, place.slice.value(), item.payload.bytes(), item.rows,
                           is_push(item));
}

}  // namespace

/// Why an item is refused; nullopt if it is not. Updates that were logged before their member was
/// lost count, up to the member's leave.
std::optional<DataItem> Shard::refusal_of(const DataMessage& message, const DataItem& item,
                                          const JobState& job, bool is_logged) {
  const Slice* place = job.layout.find(item.table, item.slice);
  if (place == nullptr || !job.served.contains(place->shard)) {
    return refuse(item, pb::DataItem::UNKNOWN_TABLE,
                  fmt::format("table {} slice {} is not on shard {}", item.table.value(),
                              item.slice.value(), job.id.value()));
  }
  const bool is_of_reader =
      item.kind == pb::DataItem::SNAPSHOT || item.kind == pb::DataItem::FOLLOW;
  if (!is_push(item) && !is_of_reader && item.kind != pb::DataItem::READ &&
      item.kind != pb::DataItem::SETTLE) {
    return refuse(item, pb::DataItem::BAD_RANGE, "this item is an answer, not a request");
  }
  if (item.payload_lost) {
    return refuse(item, pb::DataItem::BAD_RANGE,
                  "the payload is in shared memory that was not agreed on");
  }
  const TableSpec& table = job.tables[item.table.value()];
  if (std::string why = refusal_of_rows(item, *place, table); !why.empty()) {
    return refuse(item, pb::DataItem::BAD_RANGE, std::move(why));
  }
  if (is_of_reader) return std::nullopt;  // any reader may have it
  const Member* member = job.view->membership.find(message.worker);
  if (member == nullptr) {
    return refuse(item, pb::DataItem::NO_MEMBER,
                  fmt::format("worker {} is not a member of job {}", message.worker.value(),
                              job.view->job.value()));
  }
  const bool is_lost = member->fenced && !(is_logged && item.clock < member->leave);
  if (is_lost || member->incarnation != message.incarnation) {
    return refuse(item, pb::DataItem::STALE_INCARNATION,
                  fmt::format("stale incarnation: worker {} incarnation {} was declared lost; join "
                              "again",
                              message.worker.value(), message.incarnation.value()));
  }
  if (is_push(item) && (item.offset != place->offset || item.count != place->count)) {
    return refuse(
        item, pb::DataItem::BAD_RANGE,
        fmt::format("table {} slice {} is [{}, +{}), not [{}, +{})", item.table.value(),
                    item.slice.value(), place->offset, place->count, item.offset, item.count));
  }
  if (is_push(item) && !item.by_rows &&
      !job.view->compression.may_push(table, item.clock, item.encoding)) {
    return refuse(
        item, pb::DataItem::BAD_RANGE,
        fmt::format("table {} is pushed as {} at clock {}; by the job's compression it is {}",
                    item.table.value(), math::to_string(item.encoding), item.clock.value(),
                    math::to_string(job.view->compression.of_push(table, item.clock))));
  }
  const float lowest = job.view->min_weight;
  const float highest = job.view->max_weight;
  if (is_push(item) && (item.weight < lowest || item.weight > highest)) {
    return refuse(item, pb::DataItem::BAD_RANGE,
                  fmt::format("an update weighs {}; in this job it must weigh {} to {}",
                              item.weight, lowest, highest));
  }
  return std::nullopt;
}

/// The updates of a slice that wait for its backups; nullptr if updates count at once.
const UpdateLog* Shard::log_of(const JobState& job, const SliceState& slice) {
  if (!job.view->logs_updates) return nullptr;
  const std::size_t index = job.layout.index_of(slice.place().table, slice.place().slice);
  return job.images.logs(index) ? &job.images.log_of(index) : nullptr;
}

/// Whether an update has not arrived before, and the slice accepts it now or after those that wait
/// for its backups.
bool Shard::is_next(WorkerId worker, Clock clock, const JobState& job, const SliceState& slice) {
  const UpdateLog* log = log_of(job, slice);
  if (log != nullptr && log->has(worker, clock)) return false;
  if (slice.judge(worker, clock) == PushVerdict::kAccept) return true;
  const auto newest = log == nullptr ? std::nullopt : log->newest(worker);
  return newest && clock == slice.next_after(*newest);
}

/// Whether more updates of a slice wait, apart from those in a buffer, than its members' reads
/// allow, and V can rise without this one. That takes a member that pushes without reading, which
/// our clients never do.
bool Shard::is_beyond_reads(WorkerId worker, Clock clock, const JobState& job,
                            const SliceState& slice) {
  const JobView& view = *job.view;
  if (view.slack.is_unbounded() || job.slack->moving()) return false;
  const UpdateLog* log = log_of(job, slice);
  const auto newest = log == nullptr ? std::nullopt : log->newest(worker);
  const Clock next =
      newest ? std::max(slice.done(worker), slice.next_after(*newest)) : slice.done(worker);
  // A worker that V waits for is not ahead, even if its next push is at a later clock.
  if (next <= slice.version() || clock < next) return false;
  const std::uint64_t members = view.membership.members().size();
  const auto clocks =
      static_cast<std::uint64_t>(std::min<std::int64_t>(view.slack.clocks(), 1 << 20));
  const std::size_t waiting = slice.held() + (log == nullptr ? 0 : log->waiting());
  return waiting >= members * (clocks + kHeldClocks) + view.buffer();
}

/// The refusal of an update if its member's updates of a clock have more rows than the table's
/// clock_rows; nullopt if they do not.
std::optional<DataItem> Shard::beyond_clock_rows(WorkerId worker, const DataItem& item,
                                                 const JobState& job, const SliceState& slice) {
  const RowAllowance* allowance = slice.allowance();
  if (allowance == nullptr || !is_next(worker, item.clock, job, slice) ||
      !allowance->is_beyond_clock(worker, item.clock, RowAllowance::bytes_of(update_of(item)))) {
    return std::nullopt;
  }
  return refuse(item, pb::DataItem::BAD_RANGE,
                fmt::format("at clock {} table {} has more rows in all buckets than its "
                            "clock_rows, {}",
                            item.clock.value(), item.table.value(),
                            job.tables[item.table.value()].rows->clock_rows));
}

/// Why an update must be sent again later; empty if it need not be.
std::string Shard::reason_to_wait(WorkerId worker, const DataItem& item, const JobState& job,
                                  const SliceState& slice) {
  if (item.clock >= job.view->hold_from && item.clock >= slice.done(worker) &&
      !slice.gate().is_replay(worker, item.clock)) {
    failpoint("update postponed");
    return "the job's epoch is being changed";
  }
  if (slice.rows() == nullptr || !is_next(worker, item.clock, job, slice)) return {};
  if (slice.waits_for_image()) return "a checkpoint is writing the rows";
  const RowAllowance* allowance = slice.allowance();
  if (allowance == nullptr ||
      allowance->may_hold(worker, RowAllowance::bytes_of(update_of(item)))) {
    return {};
  }
  // An update at the lowest V of all buckets is accepted, since V waits for it.
  for (const Slice& place : job.layout.slices_of(item.table)) {
    if (place.shard != slice.place().shard) continue;
    const auto other = job.slices.find(job.layout.index_of(place.table, place.slice));
    if (other != job.slices.end() && other->second->version() < item.clock) {
      return "the updates of other members are missing";
    }
  }
  return {};
}

}  // namespace taut::server
