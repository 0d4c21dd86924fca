// The reads of the client's protocol: of tables and of rows, and their answers.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

/// [count] float32
Frame decoded(const math::Encoding& encoding, const Frame& payload, std::size_t count) {
  std::string bytes(count * sizeof(float), '\0');
  math::decode(encoding, payload.bytes().data(), count, 0,
               {reinterpret_cast<float*>(bytes.data()), count});
  return Frame::copy_of(bytes);
}

}  // namespace

void ClientProtocol::read(TableId table, Clock clock, std::span<float> into) {
  begin(table, clock, into, false);
}

void ClientProtocol::snapshot(TableId table, std::span<float> into) {
  begin(table, Clock(0), into, true);
}

void ClientProtocol::begin(TableId table, Clock clock, std::span<float> into, bool snapshot) {
  const auto places = layout_.slices_of(table);
  auto& pending = (snapshot ? snapshots_ : reads_)[table.value()];
  pending = {clock, places.size(), Clock::never(), Clock(-1)};
  for (const Slice& place : places) {
    SliceLink& slice = slices_[layout_.index_of(table, place.slice)];
    auto& read = snapshot ? slice.snapshot : slice.read;
    read = PendingRead{clock, into.subspan(place.offset, place.count), {}, 0, {}};
    // A worker whose first request is a read starts there: its first push may be later, and skip
    // clocks.
    if (!snapshot && !slice.next) slice.next = clock;
    touch(slice);
  }
}

void ClientProtocol::read_rows(TableId table, Clock clock, std::vector<RowRead> rows,
                               std::span<float> into) {
  begin_rows(table, clock, std::move(rows), into, false);
}

/// An answer to an earlier snapshot, of other rows, may still arrive: numbers tell them apart.
void ClientProtocol::snapshot_rows(TableId table, std::vector<RowRead> rows,
                                   std::span<float> into) {
  begin_rows(table, Clock(row_snapshots_++), std::move(rows), into, true);
}

void ClientProtocol::begin_rows(TableId table, Clock clock, std::vector<RowRead> rows,
                                std::span<float> into, bool snapshot) {
  TAUT_CHECK(is_by_rows(table) && !rows.empty(), "rows of a table that is kept by rows");
  for (const Slice& place : layout_.slices_of(table)) {
    SliceLink& slice = slices_[layout_.index_of(table, place.slice)];
    (snapshot ? slice.snapshot : slice.read).reset();
    if (!snapshot && !slice.next) slice.next = clock;
  }
  auto& pending = (snapshot ? snapshots_ : reads_)[table.value()];
  pending = {clock, rows.size(), Clock::never(), Clock(-1)};
  for (RowRead& part : rows) {
    SliceLink& slice = slices_[layout_.index_of(table, part.bucket)];
    auto& read = snapshot ? slice.snapshot : slice.read;
    read = PendingRead{clock, into, {}, 0, {}, std::move(part)};
    touch(slice);
  }
}

void ClientProtocol::receive_value(SliceLink& slice, const DataItem& item) {
  const bool snapshot = item.kind == pb::DataItem::SNAPSHOT_VALUE;
  auto& read = snapshot ? slice.snapshot : slice.read;
  // A late or repeated answer to a read that is over.
  if (!read || (!snapshot && read->clock != item.clock)) return;
  if (item.by_rows || is_by_rows(item.table)) {
    if (snapshot && read->clock != item.clock) return;
    if (!item.by_rows || item.count != slice.place.count || item.rows != read->rows.places.size()) {
      fail(ErrorCode::kMismatch,
           fmt::format("table {} bucket {}: {} rows of {} values arrived, {} of {} were expected",
                       item.table.value(), item.slice.value(), item.rows, item.count,
                       read->rows.places.size(), slice.place.count));
      return;
    }
    scatter(item, *read);
    complete_part(slice, item, snapshot);
    return;
  }
  const math::Encoding expected = snapshot ? math::Encoding() : pulls_[item.table.value()];
  const std::uint64_t bytes = math::encoded_bytes(expected, read->into.size());
  if (item.encoding != expected || item.payload.size() != bytes) {
    fail(ErrorCode::kMismatch,
         fmt::format("table {} slice {}: {} bytes of {} arrived, {} of {} were expected",
                     item.table.value(), item.slice.value(), item.payload.size(),
                     math::to_string(item.encoding.codec), bytes, math::to_string(expected.codec)));
    return;
  }
  const bool is_encoded = expected != math::Encoding();
  if (take_values_ && !snapshot) {
    take_values_(read->into,
                 is_encoded ? decoded(expected, item.payload, read->into.size()) : item.payload);
  } else if (is_encoded) {
    math::decode(expected, item.payload.bytes().data(), read->into.size(), 0, read->into);
  } else {
    std::memcpy(read->into.data(), item.payload.bytes().data(), item.payload.size());
  }
  complete_part(slice, item, snapshot);
}

/// Writes a bucket's rows to their places.
void ClientProtocol::scatter(const DataItem& item, const PendingRead& read) {
  const std::size_t row_bytes = item.count * sizeof(float);
  const std::byte* from = item.payload.bytes().data();
  for (const std::uint32_t place : read.rows.places) {
    std::memcpy(read.into.data() + place * item.count, from, row_bytes);
    from += row_bytes;
  }
}

/// One of a read's slices is in place.
void ClientProtocol::complete_part(SliceLink& slice, const DataItem& item, bool snapshot) {
  (snapshot ? slice.snapshot : slice.read).reset();
  PendingTable& table = (snapshot ? snapshots_ : reads_)[item.table.value()];
  table.lowest = std::min(table.lowest, item.version);
  table.highest = std::max(table.highest, item.version);
  if (--table.slices_left == 0) {
    completed_.push_back(
        {item.table, table.clock, table.lowest, snapshot, table.lowest == table.highest});
  }
}

std::vector<CompletedRead> ClientProtocol::take_completed() {
  return std::exchange(completed_, {});
}

std::optional<WorkerId> ClientProtocol::read_waits_for(TableId table) const {
  for (const Slice& place : layout_.slices_of(table)) {
    const SliceLink& slice = slices_[layout_.index_of(table, place.slice)];
    if (slice.read && slice.read->waits_for) return slice.read->waits_for;
  }
  return std::nullopt;
}

}  // namespace taut
