// What is sent, in which order: the sending half of the client's protocol.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "proto/wire_version.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

// A message arrives as a whole: while a shard works on one, the next is on its way. One with places
// instead of bytes arrives at once, but its answers arrive when all of it is done.
constexpr std::size_t kMessageBytes = 1UL << 20U;
constexpr std::size_t kSharedMessageBytes = 4UL << 20U;

}  // namespace

DataMessage ClientProtocol::envelope() const {
  return DataMessage{identity_.job, identity_.worker, identity_.incarnation, {}};
}

void ClientProtocol::greet_or_open(ShardId shard, Link& link, std::vector<Outgoing>& out,
                                   TimePoint now) {
  DataMessage message = envelope();
  if (link.state == LinkState::kGreeting) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_build(build_name());
    hello.set_role("worker");
    hello.set_job_hash(identity_.job_hash);
    hello.set_shard(shard.value());
    hello.set_term(link.term);
    message.body = std::move(hello);
  } else {
    if (tables_.empty()) return;
    pb::OpenTables requested = link.names_tables ? by_name_ : by_hash_;
    if (identity_.replicated) {
      for (const SliceLink& slice : slices_) {
        if (slice.place.shard == shard) requested.add_sent(slice.sent_to.value());
      }
    }
    message.body = std::move(requested);
  }
  link.sent = now;
  ++link.attempts;
  out.push_back({shard, std::move(message)});
}

ClientProtocol::Next ClientProtocol::next_item(SliceLink& slice, DataItem& item, TimePoint now) {
  const bool by_rows = is_by_rows(slice.place.table);
  const auto make = [&](DataItem::Kind kind, Clock clock) {
    item = DataItem();
    item.kind = kind;
    item.table = slice.place.table;
    item.slice = slice.place.slice;
    item.offset = slice.place.offset;
    item.count = slice.place.count;
    item.clock = clock;
    item.by_rows = by_rows && kind != pb::DataItem::SETTLE;  // which names no row
    return Next::kItem;
  };
  const auto name_rows = [&item](const PendingRead& read) {
    item.rows = static_cast<std::uint32_t>(read.rows.places.size());
    item.payload = read.rows.numbers;
  };
  const auto mark_requested = [now](PendingRead& read) {
    read.sent = now;
    ++read.attempts;
  };
  const auto unsent = std::ranges::find_if(
      slice.pushes, [](const PendingPush& push) { return !push.sent.has_value(); });
  bool read_waits = false;
  Next otherwise = Next::kNothing;
  if (unsent != slice.pushes.end()) {
    PendingPush& push = *unsent;
    const bool patient = push.not_before && now < *push.not_before;
    if (!patient && may_send(slice, push)) {
      push.not_before.reset();
      mark_sent(slice, push, now);
      const bool then_read = !by_rows && slice.read && !slice.read->sent &&
                             slice.read->clock == push.update.clock.next();
      if (then_read) mark_requested(*slice.read);
      make(then_read ? pb::DataItem::PUSH_READ : pb::DataItem::PUSH, push.update.clock);
      item.payload = push.update.gradient;
      item.gradient_norm = push.update.norm;
      item.weight = push.update.weight;
      item.encoding = push.update.encoding;
      item.rows = push.update.rows;
      return Next::kItem;
    }
    // Later ones would be refused as out of order; its read is sent with it.
    read_waits = slice.read && slice.read->clock > push.update.clock;
    // tick() touches the slice when its patience is over.
    if (!patient) otherwise = Next::kLater;
  }
  if (slice.read && !slice.read->sent && !read_waits) {
    mark_requested(*slice.read);
    make(pb::DataItem::READ, slice.read->clock);
    name_rows(*slice.read);
    return Next::kItem;
  }
  if (slice.snapshot && !slice.snapshot->sent) {
    mark_requested(*slice.snapshot);
    make(pb::DataItem::SNAPSHOT, slice.snapshot->clock);
    name_rows(*slice.snapshot);
    return Next::kItem;
  }
  const bool may_settle = slice.settle && !slice.settle->sent && !slice.kept.empty();
  if (may_settle && (slice.pushes.empty() || !slice.settle->of_all)) {
    slice.settle->sent = now;
    slice.settle->clock = slice.kept.back().update.clock.next();
    ++slice.settle->attempts;
    return make(pb::DataItem::SETTLE, slice.settle->clock);
  }
  return otherwise;
}

/// When a slice's turn is: an earlier clock goes first, within a clock what the next forward pass
/// reads first; slices are numbered in that order.
void ClientProtocol::put_in_order(std::vector<std::size_t>& slices) const {
  if (send_.order != SendOrder::kFrontFirst) return;
  const auto turn = [this](std::size_t index) {
    for (const PendingPush& push : slices_[index].pushes) {
      if (!push.sent) return std::pair(push.update.clock, index);
    }
    return std::pair(Clock::never(), index);
  };
  std::ranges::sort(slices, {}, turn);
}

bool ClientProtocol::has_outgoing() const {
  if (!dirty_.empty()) return true;
  return std::ranges::any_of(unsent_, [this](ShardId shard) {
    return links_.at(shard).state == LinkState::kGreeting || !tables_.empty();
  });
}

std::vector<ClientProtocol::Outgoing> ClientProtocol::take_outgoing(TimePoint now) {
  std::vector<Outgoing> out;
  std::erase_if(unsent_, [&](ShardId shard) {
    Link& link = links_.at(shard);
    greet_or_open(shard, link, out, now);
    return link.sent.has_value();
  });
  // A shard that has not opened the tables reports that it holds every member at its join, so
  // nothing may be accepted elsewhere before.
  was_ready_ |= ready();
  if (!was_ready_) return out;
  const auto send = [&](ShardId shard, DataItems&& batch) {
    DataMessage message = envelope();
    message.body = std::move(batch);
    out.push_back({shard, std::move(message)});
  };
  struct Batch {
    DataItems items;
    std::size_t bytes = 0;
  };
  std::map<ShardId, Batch> batches;
  std::vector<std::size_t> later;
  std::vector<std::size_t> due = std::exchange(dirty_, {});
  std::vector<std::size_t> again;
  // One item of each slice a round, so that a slice with many updates does not keep others back.
  for (; !due.empty(); std::swap(due, again)) {
    put_in_order(due);
    again.clear();
    for (const std::size_t index : due) {
      SliceLink& slice = slices_[index];
      const ShardId shard = slice.place.shard;
      DataItem item;
      const Next next =
          links_[shard].state == LinkState::kReady ? next_item(slice, item, now) : Next::kLater;
      if (next == Next::kLater) {
        later.push_back(index);
      } else if (next == Next::kNothing) {
        slice.dirty = false;
      } else {
        again.push_back(index);
        Batch& batch = batches[shard];
        batch.bytes += item.payload.size();
        // The answer to a read of rows is longer than the read.
        if (item.kind == pb::DataItem::READ || item.kind == pb::DataItem::SNAPSHOT) {
          batch.bytes += item.rows * item.count * sizeof(float);
        }
        batch.items.items.push_back(std::move(item));
        const std::size_t max_bytes =
            links_[shard].shares_memory ? kSharedMessageBytes : kMessageBytes;
        if (batch.items.items.size() == DataItems::kMaxItems || batch.bytes >= max_bytes) {
          send(shard, std::exchange(batch, {}).items);
        }
      }
    }
  }
  dirty_.insert(dirty_.end(), later.begin(), later.end());
  for (auto& [shard, batch] : batches) {
    if (!batch.items.items.empty()) send(shard, std::move(batch.items));
  }
  return out;
}

}  // namespace taut
