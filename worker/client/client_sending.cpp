// The sending half of the client's protocol: what is sent, and in which order.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "proto/wire_version.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

// A message is received as a whole: while a shard works on one, the next is on its way. One that
// refers to shared memory arrives at once, but is answered only when all of it is done.
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

DataItem ClientProtocol::item_of(const SliceLink& slice, DataItem::Kind kind, Clock clock) const {
  DataItem item;
  item.kind = kind;
  item.table = slice.place.table;
  item.slice = slice.place.slice;
  item.offset = slice.place.offset;
  item.count = slice.place.count;
  item.clock = clock;
  // A settlement names no row.
  item.by_rows = kind != pb::DataItem::SETTLE && is_by_rows(slice.place.table);
  return item;
}

void ClientProtocol::mark_requested(PendingRead& read, TimePoint now) {
  read.sent = now;
  ++read.attempts;
}

DataItem ClientProtocol::request(const SliceLink& slice, DataItem::Kind kind, PendingRead& read,
                                 TimePoint now) {
  mark_requested(read, now);
  DataItem item = item_of(slice, kind, read.clock);
  item.rows = static_cast<std::uint32_t>(read.rows.places.size());
  item.payload = read.rows.numbers;
  return item;
}

/// An update, and with it the read of the clock after it.
DataItem ClientProtocol::send_push(SliceLink& slice, PendingPush& push, TimePoint now) {
  push.not_before.reset();
  mark_sent(slice, push, now);
  const bool then_read = !is_by_rows(slice.place.table) && slice.read && !slice.read->sent &&
                         slice.read->clock == push.update.clock.next();
  if (then_read) mark_requested(*slice.read, now);
  DataItem item =
      item_of(slice, then_read ? pb::DataItem::PUSH_READ : pb::DataItem::PUSH, push.update.clock);
  item.payload = push.update.gradient;
  item.gradient_norm = push.update.norm;
  item.weight = push.update.weight;
  item.encoding = push.update.encoding;
  item.rows = push.update.rows;
  return item;
}

ClientProtocol::Next ClientProtocol::next_item(SliceLink& slice, DataItem& item, TimePoint now) {
  const auto unsent = std::ranges::find_if(
      slice.pushes, [](const PendingPush& push) { return !push.sent.has_value(); });
  bool read_waits = false;
  Next otherwise = Next::kNothing;
  if (unsent != slice.pushes.end()) {
    PendingPush& push = *unsent;
    const bool patient = push.not_before && now < *push.not_before;
    if (!patient && may_send(slice, push)) {
      item = send_push(slice, push, now);
      return Next::kItem;
    }
    // Later pushes would be refused as out of order; the read is sent with its push.
    read_waits = slice.read && slice.read->clock > push.update.clock;
    // tick() touches the slice when its pause is over.
    if (!patient) otherwise = Next::kLater;
  }
  if (slice.read && !slice.read->sent && !read_waits) {
    item = request(slice, pb::DataItem::READ, *slice.read, now);
    return Next::kItem;
  }
  if (slice.snapshot && !slice.snapshot->sent) {
    item = request(slice, pb::DataItem::SNAPSHOT, *slice.snapshot, now);
    return Next::kItem;
  }
  const bool may_settle = slice.settle && !slice.settle->sent && !slice.kept.empty();
  if (may_settle && (slice.pushes.empty() || !slice.settle->of_all)) {
    slice.settle->sent = now;
    slice.settle->clock = slice.kept.back().update.clock.next();
    ++slice.settle->attempts;
    item = item_of(slice, pb::DataItem::SETTLE, slice.settle->clock);
    return Next::kItem;
  }
  return otherwise;
}

/// Sorts slices by turn: earlier clocks go first, within a clock what the next forward pass reads
/// first; slices are numbered in that order.
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
  // Until a shard has opened the tables it reports every member as of its join, so no shard may
  // accept anything before.
  was_ready_ |= ready();
  if (!was_ready_) return out;
  std::map<ShardId, Batch> batches;
  std::vector<std::size_t> later;
  std::vector<std::size_t> due = std::exchange(dirty_, {});
  std::vector<std::size_t> again;
  // One item per slice and round, so that a slice with many updates does not delay the others.
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
        add(std::move(item), shard, batches[shard], out);
      }
    }
  }
  dirty_.insert(dirty_.end(), later.begin(), later.end());
  for (auto& [shard, batch] : batches) {
    send(shard, batch, out);
  }
  return out;
}

/// Adds an item to the message for a shard, which is sent once it is full.
void ClientProtocol::add(DataItem item, ShardId shard, Batch& batch,
                         std::vector<Outgoing>& out) const {
  batch.bytes += item.payload.size();
  // The answer to a read of rows is longer than the read.
  if (item.kind == pb::DataItem::READ || item.kind == pb::DataItem::SNAPSHOT) {
    batch.bytes += item.rows * item.count * sizeof(float);
  }
  batch.items.items.push_back(std::move(item));
  const std::size_t max_bytes =
      links_.at(shard).shares_memory ? kSharedMessageBytes : kMessageBytes;
  if (batch.items.items.size() == DataItems::kMaxItems || batch.bytes >= max_bytes) {
    send(shard, batch, out);
  }
}

void ClientProtocol::send(ShardId shard, Batch& batch, std::vector<Outgoing>& out) const {
  if (batch.items.items.empty()) return;
  DataMessage message = envelope();
  message.body = std::exchange(batch, {}).items;
  out.push_back({shard, std::move(message)});
}

}  // namespace taut
