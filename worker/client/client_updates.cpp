// The updates of the client's protocol, until shards and their backups have acknowledged them.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

// How long a shard in the middle of an epoch change is left alone.
constexpr Duration kPatience{20'000};

}  // namespace

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
  if (limits_room()) {
    std::uint64_t bytes = 0;
    for (const Update& update : slices) bytes += update.gradient.size();
    held_[{table, slices.front().clock}] = {slices.size(), bytes};
    held_bytes_ += bytes;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    SliceLink& slice = slices_[layout_.index_of(table, places[i].slice)];
    const Clock clock = slices[i].clock;
    // A read may have been requested before the first push: nothing precedes either.
    const Clock from = std::min(std::exchange(slice.next, clock.next()).value_or(clock), clock);
    slice.pushes.push_back({from, std::move(slices[i]), {}, 0, {}});
    ++unacknowledged_;
    touch(slice);
  }
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
  // If a push was refused but another copy of it accepted, its read is sent alone.
  if (slice.read && !slice.read->sent) touch(slice);
  if (slice.settle && !slice.settle->sent) touch(slice);
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

void ClientProtocol::let_go(SliceLink& slice, Clock stable) {
  while (!slice.kept.empty() && slice.kept.front().update.clock < stable) {
    kept_bytes_ -= slice.kept.front().update.gradient.size();
    release(slice, slice.kept.front().update.clock);
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

/// One slice of an update is safe; the update's memory is free once all of them are.
void ClientProtocol::release(const SliceLink& slice, Clock clock) {
  const auto held = held_.find({slice.place.table, clock});
  if (held == held_.end() || --held->second.slices_left > 0) return;
  held_bytes_ -= held->second.bytes;
  held_.erase(held);
}

std::uint64_t ClientProtocol::room() const {
  const std::uint64_t limit = identity_.max_kept.value();
  if (!limits_room()) return std::numeric_limits<std::uint64_t>::max();
  // Whatever the limit, one clock's updates are held while those of the next are computed.
  const std::uint64_t most = std::max(limit, clock_bytes_) + clock_bytes_;
  return most > held_bytes_ ? most - held_bytes_ : 0;
}

void ClientProtocol::settle() {
  for (SliceLink& slice : slices_) {
    const bool is_asked = slice.settle && slice.settle->of_all;
    if (is_asked || (slice.kept.empty() && slice.pushes.empty())) continue;
    slice.settle = PendingSettle();
    touch(slice);
  }
}

}  // namespace taut
