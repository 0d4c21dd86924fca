#include "lab/contract/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "common/math/codec.hpp"

namespace taut::sim {
namespace {

constexpr std::size_t kStretch = 1U << 14U;

/// The rows that a request names.
std::vector<std::uint64_t> named_rows(const DataItem& item) {
  if (!item.by_rows) return {};
  std::vector<std::uint64_t> rows(
      std::min<std::size_t>(item.rows, item.payload.size() / sizeof(std::uint64_t)));
  if (!rows.empty()) {
    std::memcpy(rows.data(), item.payload.bytes().data(), rows.size() * sizeof(std::uint64_t));
  }
  return rows;
}

}  // namespace

std::string describe(const Event& event) {
  static constexpr std::array kNames = {
      "view",      "greeted", "opened",    "request",  "reply",  "step",     "reads from",
      "pushed",    "reading", "read",      "finished", "failed", "captured", "took over",
      "gave away", "missed",  "confirmed", "followed", "end"};
  return fmt::format(
      "{} us: {} shard {} peer {} worker {}.{} {} {} table {} slice {} clock {} "
      "V {} done {} stable {}",
      event.at.since_origin().count(), kNames[static_cast<std::size_t>(event.kind)],
      event.shard.value(), event.peer.value(), event.worker.value(), event.incarnation.value(),
      pb::DataItem::Kind_Name(event.item), pb::DataItem::Refusal_Name(event.refusal),
      event.table.value(), event.slice.value(), event.clock.value(), event.version.value(),
      event.done.value(), event.stable.value());
}

void History::add(const Event& event, std::span<const float> values,
                  std::span<const std::uint64_t> rows) {
  Event& kept = events_.emplace_back(event);
  kept.values_begin = static_cast<std::uint32_t>(values_.size());
  values_.insert(values_.end(), values.begin(), values.end());
  kept.values_end = static_cast<std::uint32_t>(values_.size());
  kept.rows_begin = static_cast<std::uint32_t>(rows_.size());
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  kept.rows_end = static_cast<std::uint32_t>(rows_.size());
  // FNV-1a over words. Connections are numbered in the order in which they were made.
  mix(static_cast<std::uint64_t>(event.kind) | static_cast<std::uint64_t>(event.item) << 8U |
      static_cast<std::uint64_t>(event.refusal) << 16U | std::uint64_t{event.shard.value()} << 32U);
  mix(static_cast<std::uint64_t>(event.at.since_origin().count()));
  mix(event.peer.value());
  mix(std::uint64_t{event.worker.value()} << 32U | event.incarnation.value());
  mix(std::uint64_t{event.table.value()} << 32U | event.slice.value());
  mix(static_cast<std::uint64_t>(event.clock.value()));
  mix(static_cast<std::uint64_t>(event.version.value()));
  mix(static_cast<std::uint64_t>(event.done.value()));
  mix(static_cast<std::uint64_t>(event.stable.value()));
  for (const float value : values) mix(std::bit_cast<std::uint32_t>(value));
  for (const std::uint64_t row : rows) mix(row);
  if (event.kind == Event::Kind::kStep && events_.size() >= kStretch) finish();
}

void History::add_view(TimePoint at, ShardId shard, const pb::ServerJob& view) {
  Event event;
  event.kind = Event::Kind::kView;
  event.at = at;
  event.shard = shard;
  event.view = static_cast<std::uint32_t>(views_.size());
  event.clock = Clock(static_cast<std::int64_t>(view.revision()));
  views_.push_back(view);
  add(event);
}

void History::add_items(Event::Kind kind, TimePoint at, ShardId shard, PeerId peer,
                        const DataMessage& message, const std::set<Push>& postponed) {
  if (const auto* confirm = std::get_if<pb::ConfirmReply>(&message.body)) {
    if (!confirm->known()) return;
    Event event;
    event.kind = Event::Kind::kConfirmed;
    event.at = at;
    event.shard = shard;
    event.peer = peer;
    event.incarnation = Incarnation(confirm->follower());
    event.version = Clock(confirm->version());
    add(event);
    return;
  }
  const auto* batch = std::get_if<DataItems>(&message.body);
  if (batch == nullptr) return;
  for (const DataItem& item : batch->items) {
    Event event;
    event.kind = kind;
    event.at = at;
    event.shard = shard;
    event.peer = peer;
    event.worker = message.worker;
    event.incarnation = message.incarnation;
    event.item = item.kind;
    event.refusal = item.refusal;
    event.weight = item.weight;
    event.is_plain = item.encoding.codec == math::Codec::kFloat32;
    event.table = item.table;
    event.slice = item.slice;
    event.clock = item.clock;
    event.is_postponed = postponed.contains({item.table, item.slice, item.clock});
    event.version = item.version;
    event.done = item.done;
    event.stable = item.stable;
    const bool answer = item.kind == pb::DataItem::VALUE ||
                        item.kind == pb::DataItem::SNAPSHOT_VALUE ||
                        item.kind == pb::DataItem::FOLLOW_VALUE;
    if (!answer) {
      add(event, {}, named_rows(item));
      continue;
    }
    const std::size_t count = item.count * (item.by_rows ? item.rows : 1);
    std::vector<float> values(item.payload.empty() ? 0 : count);
    math::decode(item.encoding, item.payload.bytes().data(), values.size(), 0, values);
    add(event, values);
  }
}

void History::finish() {
  reader_(*this);
  events_.clear();
  values_.clear();
  rows_.clear();
  views_.clear();
}

}  // namespace taut::sim
