#include "worker/client/client_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.hpp"
#include "proto/config/job_state.hpp"

namespace taut {

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
    has_rows_ |= table.rows.has_value();
    const bool is_pushed_whole = !table.rows && table.kind != TableKind::kFrozen;
    if (is_pushed_whole) clock_bytes_ += table.count() * sizeof(float);
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
      // The host is taking the shard over, or has lost it: the hello is sent again, or elsewhere.
      link.is_early = true;
    } else if (!greeting->accepted()) {
      fail(ErrorCode::kMismatch,
           fmt::format("shard {} refuses this worker: {}", from.value(), greeting->reason()));
    } else if (link.state == LinkState::kGreeting) {
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
      advance(from, link, LinkState::kReady);
      for (SliceLink& slice : slices_) {
        if (slice.place.shard == from) touch(slice);
      }
    }
  }
}

/// The shard does not know the connection: it broke, and messages under way may be lost.
void ClientProtocol::restart(ShardId shard) {
  if (links_[shard].state != LinkState::kGreeting) rewind(shard);
}

/// Marks all that was sent to this shard as unsent; its host must be greeted again.
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
  // Its silence counts from now: it has as long to answer as a shard that just did.
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

void ClientProtocol::fail(ErrorCode code, std::string message) {
  if (!failure_) failure_ = make_error(code, std::move(message));
}

void ClientProtocol::tick(TimePoint now) {
  const auto is_overdue = [now](const auto& pending, Duration timeout) {
    return pending.sent && now - *pending.sent >= timeout;
  };
  const auto again_if_overdue = [&](auto& pending, Duration timeout) {
    if (!is_overdue(pending, timeout)) return false;
    pending.sent.reset();
    ++resent_;
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
      if (is_overdue(push, timer.timeout(push.attempts))) {
        timer.expired(push.attempts);
        mark_unsent(slice, push);
        ++resent_;
        again = true;
      }
      again |= push.not_before && now >= *push.not_before;
    }
    const auto repeat_if_late = [&](auto& request) {
      if (request) again |= again_if_overdue(*request, timer.read_timeout(request->attempts));
    };
    repeat_if_late(slice.read);
    repeat_if_late(slice.settle);
    if (slice.snapshot) {
      again |= again_if_overdue(*slice.snapshot, timer.timeout(slice.snapshot->attempts));
    }
    if (again) touch(slice);
  }
}

}  // namespace taut
