#include "worker/client/client_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "common/check.hpp"
#include "proto/config/job_state.hpp"

namespace taut {
namespace {

// How long a shard in the middle of an epoch change is left alone.
constexpr Duration kPatience{20'000};
constexpr int kManyAttempts = 1000;
// A read may wait at its shard for others, and then lose its answer: where the pause before it is
// requested again grew with the wait, one worker's delay would become that of all. It is a small
// message, so the pause stops growing soon.
constexpr int kReadAttempts = 3;

/// [count] float32
Frame decoded(const math::Encoding& encoding, const Frame& payload, std::size_t count) {
  std::string bytes(count * sizeof(float), '\0');
  math::decode(encoding, payload.bytes().data(), count, 0,
               {reinterpret_cast<float*>(bytes.data()), count});
  return Frame::copy_of(bytes);
}

}  // namespace

void ClientProtocol::advance(ShardId shard, Link& link, LinkState state) {
  if (state == LinkState::kReady) {
    --not_ready_;
    unsent_.erase(shard);
  } else {
    unsent_.insert(shard);
  }
  link.state = state;
  link.sent.reset();
  link.attempts = 0;
}

ClientProtocol::ClientProtocol(ClientIdentity identity, std::vector<ShardId> shards,
                               ResendPolicy resend, SendPolicy send, std::uint64_t slice_elements)
    : identity_(std::move(identity)),
      shards_(std::move(shards)),
      slice_elements_(slice_elements),
      send_(send) {
  for (const ShardId shard : shards_) {
    links_[shard] = Link{};
    resend_.emplace(shard, resend);
  }
  not_ready_ = links_.size();
  unsent_.insert(shards_.begin(), shards_.end());
}

void ClientProtocol::open(std::vector<TableSpec> tables, const Compression& compression) {
  TAUT_CHECK(tables_.empty() && !tables.empty(), "tables are opened once");
  tables_ = std::move(tables);
  for (const TableSpec& table : tables_) {
    pulls_.push_back(table.rows ? math::Encoding() : compression.of_pull(table));
    *by_name_.add_tables() = to_wire(table);
  }
  by_hash_.set_tables_hash(tables_hash(tables_));
  layout_ = SliceLayout(tables_, shards_, slice_elements_);
  for (const Slice& place : layout_.slices())
    slices_.push_back(SliceLink{place, {}, {}, {}, {}, {}, {}, {}, {}, false});
  reads_.resize(tables_.size());
  snapshots_.resize(tables_.size());
}

bool ClientProtocol::ready() const {
  return not_ready_ == 0;
}

void ClientProtocol::touch(SliceLink& slice) {
  if (std::exchange(slice.dirty, true)) return;
  dirty_.push_back(static_cast<std::size_t>(&slice - slices_.data()));
}

void ClientProtocol::mark_sent(SliceLink& slice, PendingPush& push, TimePoint now) {
  push.sent = now;
  slice.sent_to = std::max(slice.sent_to, push.update.clock.next());
  ++push.attempts;
  ClientFigures::UnderWay& under_way = links_[slice.place.shard].under_way;
  ++under_way.updates;
  under_way.bytes += push.update.gradient.size();
}

void ClientProtocol::mark_unsent(const SliceLink& slice, PendingPush& push) {
  if (!push.sent) return;
  push.sent.reset();
  ClientFigures::UnderWay& under_way = links_[slice.place.shard].under_way;
  --under_way.updates;
  under_way.bytes -= push.update.gradient.size();
}

bool ClientProtocol::may_send(const SliceLink& slice, const PendingPush& push) {
  const Link& link = links_[slice.place.shard];
  const Bytes window = link.shares_memory ? send_.shared_window : send_.window;
  const std::uint64_t sent = link.under_way.bytes;
  return sent == 0 || sent + push.update.gradient.size() <= window.value();
}

void ClientProtocol::describe(ClientFigures& figures) const {
  figures.updates_waiting = unacknowledged_;
  for (const auto& [shard, link] : links_) {
    figures.under_way[shard] = link.under_way;
    figures.updates_waiting -= link.under_way.updates;
  }
}

std::optional<ClientProtocol::Silence> ClientProtocol::longest_silence() const {
  std::set<ShardId> owing;
  for (const auto& [shard, link] : links_) {
    if (link.state != LinkState::kReady) owing.insert(shard);
  }
  for (const SliceLink& slice : slices_) {
    // No caller waits for an image that only frees memory.
    const bool settles = slice.settle && slice.settle->of_all;
    const bool owes = !slice.pushes.empty() || slice.read || slice.snapshot || settles;
    if (owes) owing.insert(slice.place.shard);
  }
  std::optional<Silence> longest;
  for (const ShardId shard : owing) {
    const Link& link = links_.at(shard);
    if (!longest || link.last_heard < longest->since) {
      longest = Silence{shard, link.term, link.last_heard};
    }
  }
  return longest;
}

std::optional<WorkerId> ClientProtocol::read_waits_for(TableId table) const {
  for (const Slice& place : layout_.slices_of(table)) {
    const SliceLink& slice = slices_[layout_.index_of(table, place.slice)];
    if (slice.read && slice.read->waits_for) return slice.read->waits_for;
  }
  return std::nullopt;
}

void ClientProtocol::push(TableId table, const Update& update) {
  std::vector<Update> slices;
  for (const Slice& place : layout_.slices_of(table)) {
    const Frame part =
        update.gradient.part(place.offset * sizeof(float), place.count * sizeof(float));
    slices.push_back({update.clock, part, update.norm, {}, update.weight});
  }
  push(table, std::move(slices));
}

void ClientProtocol::push(TableId table, std::vector<Update> slices) {
  const auto places = layout_.slices_of(table);
  TAUT_CHECK(slices.size() == places.size(), "an update has a part for each slice");
  for (std::size_t i = 0; i < places.size(); ++i) {
    SliceLink& slice = slices_[layout_.index_of(table, places[i].slice)];
    const Clock clock = slices[i].clock;
    // A first push whose read was requested before it: nothing is before either.
    const Clock from = std::min(std::exchange(slice.next, clock.next()).value_or(clock), clock);
    slice.pushes.push_back({from, std::move(slices[i]), {}, 0, {}});
    ++unacknowledged_;
    touch(slice);
  }
}

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

/// An answer to an earlier snapshot may still come, of other rows: its number tells.
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

void ClientProtocol::handle(ShardId from, const DataMessage& message, TimePoint now) {
  const auto found = links_.find(from);
  if (found == links_.end() || message.job != identity_.job) return;
  Link& link = found->second;
  link.last_heard = now;
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    for (const DataItem& item : batch->items) handle_item(item, now);
    relieve();
  } else if (const auto* greeting = std::get_if<pb::DataHelloReply>(&message.body)) {
    if (greeting->greet_again()) {
      restart(from);
    } else if (!greeting->accepted() && greeting->later()) {
      // It takes the shard over, or has lost it: the hello is sent again soon, or elsewhere.
      link.is_early = true;
    } else if (!greeting->accepted()) {
      fail(ErrorCode::kMismatch,
           fmt::format("shard {} refuses this worker: {}", from.value(), greeting->reason()));
    } else if (link.state == LinkState::kGreeting) {
      if (link.sent && link.attempts == 1) resend_.at(from).measured(now - *link.sent);
      advance(from, link, LinkState::kOpening);
    }
  } else if (const auto* opened = std::get_if<pb::OpenTablesReply>(&message.body)) {
    if (opened->name_tables()) {
      if (link.state == LinkState::kOpening && !std::exchange(link.names_tables, true)) {
        advance(from, link, LinkState::kOpening);
      }
    } else if (!opened->accepted()) {
      fail(ErrorCode::kMismatch,
           fmt::format("shard {} cannot open the tables: {}", from.value(), opened->reason()));
    } else if (link.state == LinkState::kOpening) {
      if (link.sent && link.attempts == 1) resend_.at(from).measured(now - *link.sent);
      advance(from, link, LinkState::kReady);
      for (SliceLink& slice : slices_) {
        if (slice.place.shard == from) touch(slice);
      }
    }
  }
}

/// A shard that does not know the connection: it broke, and what was under way may be lost.
void ClientProtocol::restart(ShardId shard) {
  if (links_[shard].state != LinkState::kGreeting) rewind(shard);
}

/// Nothing that was sent to this shard counts as sent, and its host must be greeted again.
void ClientProtocol::rewind(ShardId shard) {
  Link& link = links_[shard];
  for (SliceLink& slice : slices_) {
    if (slice.place.shard != shard) continue;
    for (PendingPush& push : slice.pushes) mark_unsent(slice, push);
    if (slice.read) slice.read->sent.reset();
    if (slice.snapshot) slice.snapshot->sent.reset();
    if (slice.settle) slice.settle->sent.reset();
    slice.acknowledged = Clock();
    touch(slice);
  }
  const auto last_heard = link.last_heard;
  const std::uint64_t term = link.term;
  if (link.state == LinkState::kReady) ++not_ready_;
  link = Link{};
  unsent_.insert(shard);
  link.last_heard = last_heard;
  link.term = term;
}

bool ClientProtocol::move(ShardId shard, std::uint64_t term, TimePoint now) {
  const auto found = links_.find(shard);
  if (found == links_.end() || term <= found->second.term) return false;
  rewind(shard);
  found->second.term = term;
  // It has as long to answer as one that has just done so.
  found->second.last_heard = now;
  for (SliceLink& slice : slices_) {
    if (slice.place.shard != shard) continue;
    unacknowledged_ += slice.kept.size();
    kept_ -= slice.kept.size();
    for (; !slice.kept.empty(); slice.kept.pop_back()) {
      kept_bytes_ -= slice.kept.back().update.gradient.size();
      PendingPush& push = slice.pushes.emplace_front(std::move(slice.kept.back()));
      push.sent.reset();
      push.attempts = 0;
      push.not_before.reset();
    }
  }
  return true;
}

void ClientProtocol::settle() {
  for (SliceLink& slice : slices_) {
    const bool is_asked = slice.settle && slice.settle->of_all;
    if (is_asked || (slice.kept.empty() && slice.pushes.empty())) continue;
    slice.settle = PendingSettle();
    touch(slice);
  }
}

void ClientProtocol::handle_item(const DataItem& item, TimePoint now) {
  if (layout_.find(item.table, item.slice) == nullptr || item.payload_lost) return;
  SliceLink& slice = slices_[layout_.index_of(item.table, item.slice)];
  switch (item.kind) {
    case pb::DataItem::ACK:
    case pb::DataItem::SETTLED:
      acknowledge(slice, item.done, now);
      let_go(slice, item.stable);
      break;
    case pb::DataItem::VALUE:
      acknowledge(slice, item.done, now);
      let_go(slice, item.stable);
      receive_value(slice, item);
      break;
    case pb::DataItem::SNAPSHOT_VALUE:
      receive_value(slice, item);
      break;
    case pb::DataItem::PARKED:
      if (slice.read && slice.read->clock == item.clock) slice.read->waits_for = item.waits_for;
      break;
    case pb::DataItem::REFUSED:
      handle_refusal(slice, item, now);
      break;
    default:
      break;
  }
}

void ClientProtocol::acknowledge(SliceLink& slice, Clock done, TimePoint now) {
  slice.acknowledged = std::max(slice.acknowledged, done);
  while (!slice.pushes.empty() && slice.pushes.front().update.clock < done) {
    PendingPush& push = slice.pushes.front();
    if (push.sent && push.attempts == 1) {
      resend_.at(slice.place.shard).measured(now - *push.sent);
    }
    mark_unsent(slice, push);
    if (identity_.replicated) {
      kept_bytes_ += push.update.gradient.size();
      slice.kept.push_back(std::move(push));
      ++kept_;
      note_relievable(slice);
    }
    slice.pushes.pop_front();
    --unacknowledged_;
  }
  // The read of a push that was refused, and of which another copy was taken, goes alone.
  if (slice.read && !slice.read->sent) touch(slice);
  if (slice.settle && !slice.settle->sent) touch(slice);
}

void ClientProtocol::let_go(SliceLink& slice, Clock stable) {
  while (!slice.kept.empty() && slice.kept.front().update.clock < stable) {
    kept_bytes_ -= slice.kept.front().update.gradient.size();
    slice.kept.pop_front();
    --kept_;
  }
  const bool is_safe = slice.kept.empty() && slice.pushes.empty();
  const bool is_relieved =
      slice.settle && !slice.settle->of_all && slice.settle->sent && stable >= slice.settle->clock;
  if (is_safe || is_relieved) slice.settle.reset();
  if (!slice.kept.empty() && !slice.settle) note_relievable(slice);
}

void ClientProtocol::note_relievable(SliceLink& slice) {
  if (identity_.max_kept.value() == 0 || std::exchange(slice.may_be_relieved, true)) return;
  relievable_.push_back(static_cast<std::size_t>(&slice - slices_.data()));
}

/// If too much is kept, requests images before they are due: of every slice, as the slices of a
/// table share the memory of its update, which is free once the last of them is stable.
void ClientProtocol::relieve() {
  const std::uint64_t limit = identity_.max_kept.value();
  if (limit == 0 || kept_bytes_ <= limit / 2) return;
  for (const std::size_t index : std::exchange(relievable_, {})) {
    SliceLink& slice = slices_[index];
    slice.may_be_relieved = false;
    if (slice.kept.empty() || slice.settle) continue;
    slice.settle = PendingSettle{false, {}, {}, 0};
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

/// The values of one of a read's slices are where they belong.
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

void ClientProtocol::handle_refusal(SliceLink& slice, const DataItem& item, TimePoint now) {
  switch (item.refusal) {
    case pb::DataItem::HELD:
      for (PendingPush& push : slice.pushes) {
        if (push.update.clock != item.clock) continue;
        mark_unsent(slice, push);
        push.not_before = now + kPatience;
        // The read that was sent with it was refused too.
        if (slice.read && slice.read->clock == push.update.clock.next()) slice.read->sent.reset();
      }
      return;
    case pb::DataItem::OUT_OF_ORDER:
      // A late answer: the shard has accepted more since.
      if (item.done < slice.acknowledged) return;
      acknowledge(slice, item.done, now);
      if (slice.pushes.empty() || slice.pushes.front().from > item.done) {
        fail(ErrorCode::kMismatch,
             fmt::format("table {} slice {}: the shard expects clock {}, which was acknowledged",
                         item.table.value(), item.slice.value(), item.done.value()));
        return;
      }
      for (PendingPush& push : slice.pushes) mark_unsent(slice, push);
      if (slice.read && slice.read->clock == item.clock.next()) slice.read->sent.reset();
      touch(slice);
      return;
    case pb::DataItem::STALE_INCARNATION:
      fail(ErrorCode::kStale, item.reason);
      return;
    default:
      fail(ErrorCode::kMismatch, fmt::format("table {} slice {}: refused: {}", item.table.value(),
                                             item.slice.value(), item.reason));
  }
}

void ClientProtocol::fail(ErrorCode code, std::string message) {
  if (!failure_) failure_ = make_error(code, std::move(message));
}

void ClientProtocol::tick(TimePoint now) {
  const auto overdue = [now](const ResendTimer& timer, const auto& pending,
                             int max_attempts = kManyAttempts) {
    const int attempts = std::min(pending.attempts, max_attempts);
    return pending.sent && now - *pending.sent >= timer.timeout(attempts);
  };
  const auto again_if_overdue = [&](const ResendTimer& timer, auto& pending,
                                    int max_attempts = kManyAttempts) {
    if (!overdue(timer, pending, max_attempts)) return false;
    pending.sent.reset();
    return true;
  };
  if (!ready()) {
    for (auto& [shard, link] : links_) {
      const ResendTimer& timer = resend_.at(shard);
      const Duration wait =
          link.is_early ? timer.pause(link.attempts) : timer.timeout(link.attempts);
      if (!link.sent || now - *link.sent < wait) continue;
      link.sent.reset();
      link.is_early = false;
      unsent_.insert(shard);
    }
  }
  for (SliceLink& slice : slices_) {
    ResendTimer& timer = resend_.at(slice.place.shard);
    bool again = false;
    for (PendingPush& push : slice.pushes) {
      if (overdue(timer, push)) {
        timer.expired(push.attempts);
        mark_unsent(slice, push);
        again = true;
      }
      again |= push.not_before && now >= *push.not_before;
    }
    if (slice.read) again |= again_if_overdue(timer, *slice.read, kReadAttempts);
    if (slice.snapshot) again |= again_if_overdue(timer, *slice.snapshot);
    if (slice.settle) again |= again_if_overdue(timer, *slice.settle, kReadAttempts);
    if (again) touch(slice);
  }
}

std::vector<CompletedRead> ClientProtocol::take_completed() {
  return std::exchange(completed_, {});
}

}  // namespace taut
