#include "lab/losses/promises.hpp"

#include <fmt/format.h>

#include "common/ssp/slice_layout.hpp"

namespace taut::sim {
namespace {

/// Only these answers state what a worker's updates are.
bool speaks_of_updates(const Event& event) {
  return event.kind == Event::Kind::kReply &&
         (event.item == pb::DataItem::ACK || event.item == pb::DataItem::VALUE ||
          event.item == pb::DataItem::SETTLED);
}

}  // namespace

std::optional<Broken> Promises::take(const Event& event, const History& history) {
  const std::uint32_t host = event.shard.value();
  if (event.kind == Event::Kind::kView) return take_view(host, history.views()[event.view]);
  if (event.kind == Event::Kind::kRequest) {
    worker_of_[{host, event.peer}] = event.worker.value();
  }
  return speaks_of_updates(event) ? take_answer(event) : std::nullopt;
}

std::optional<Broken> Promises::take_view(std::uint32_t host, const pb::ServerJob& view) {
  if (view.finished()) return std::nullopt;
  Host& here = hosts_[host];
  here.places.clear();
  here.members.clear();
  for (const pb::Member& member : view.members()) {
    here.members[member.worker()] = member.fenced();
  }
  for (const pb::ShardInfo& shard : view.shards()) {
    const std::uint32_t primary = shard.has_host() ? shard.host() : shard.shard();
    here.places.push_back({primary, shard.term()});
    const auto [known, is_new] = primaries_.try_emplace({shard.shard(), shard.term()}, primary);
    if (known->second == primary) continue;
    return Broken{"primary", fmt::format("in term {} of shard {} hosts {} and {} serve it",
                                         shard.term(), shard.shard(), known->second, primary)};
  }
  if (!shard_of_.empty() || view.shards().empty()) return std::nullopt;
  std::vector<ShardId> shards;
  for (const pb::ShardInfo& shard : view.shards()) shards.emplace_back(shard.shard());
  const SliceLayout layout(toy_tables(job_), shards, kSliceElements);
  for (const Slice& slice : layout.slices()) {
    shard_of_[{slice.table.value(), slice.slice.value()}] = slice.shard.value();
  }
  return std::nullopt;
}

std::optional<Broken> Promises::take_answer(const Event& event) {
  const auto shard = shard_of_.find({event.table.value(), event.slice.value()});
  const auto worker = worker_of_.find({event.shard.value(), event.peer});
  if (shard == shard_of_.end() || worker == worker_of_.end()) return std::nullopt;
  const Host& here = hosts_[event.shard.value()];
  if (shard->second >= here.places.size()) return std::nullopt;
  const Place& place = here.places[shard->second];
  const auto where = [&] {
    return fmt::format("host {} in term {}, table {} slice {}, worker {}", event.shard.value(),
                       place.term, event.table.value(), event.slice.value(), worker->second);
  };
  if (place.host != event.shard.value()) {
    return Broken{"primary", fmt::format("{}: host {} serves it there", where(), place.host)};
  }
  const auto member = here.members.find(worker->second);
  if (member == here.members.end() || member->second) return std::nullopt;
  if (event.stable > event.done) {
    return Broken{"promise", fmt::format("{}: updates before {} are said to outlive it, and it has "
                                         "those before {}",
                                         where(), event.stable.value(), event.done.value())};
  }
  Promise& promise = promises_[{event.table.value(), event.slice.value(), worker->second}];
  if (place.term > promise.term && event.done.value() < promise.before) {
    return Broken{"promise",
                  fmt::format("{}: it has the updates before {}; in term {} those "
                              "before {} were said to outlive the primary",
                              where(), event.done.value(), promise.term, promise.before)};
  }
  if (event.stable.value() > promise.before) promise = {event.stable.value(), place.term};
  return std::nullopt;
}

}  // namespace taut::sim
