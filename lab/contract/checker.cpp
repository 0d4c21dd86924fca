#include "lab/contract/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace taut::sim {
namespace {

bool is_of_slice(const Event& event) {
  return event.kind == Event::Kind::kRequest || event.kind == Event::Kind::kReply ||
         event.kind == Event::Kind::kPutAside;
}

}  // namespace

void Checker::take(const History& history) {
  for (const Event& event : history.events()) {
    if (broken_) return;
    if (trace_) trace_(event);
    broken_ = next(event, history);
    if (broken_) {
      broken_->what += fmt::format(" (at {} us)", event.at.since_origin().count());
    }
  }
}

std::optional<Broken> Checker::next(const Event& event, const History& history) {
  switch (event.kind) {
    case Event::Kind::kView:
    case Event::Kind::kGreeted:
    case Event::Kind::kOpened:
    case Event::Kind::kRequest:
    case Event::Kind::kReply:
    case Event::Kind::kStep:
    case Event::Kind::kPutAside:
    case Event::Kind::kMissed:
      return next_at_shard(event, history);
    case Event::Kind::kConfirmed:
      return take_confirmation(shards_[event.shard.value()], event);
    case Event::Kind::kFollowed:
      return check_model(event, history.values(event));
    case Event::Kind::kTookOver:
      take_over(event);
      return std::nullopt;
    case Event::Kind::kGaveAway:
      give_away(shards_[event.shard.value()], {event.table.value(), event.slice.value()});
      return std::nullopt;
    case Event::Kind::kEnd:
      return check_end(event);
    default:
      return next_at_worker(event, history);
  }
}

std::optional<Broken> Checker::next_at_shard(const Event& event, const History& history) {
  ShardSide& shard = shards_[event.shard.value()];
  note_rows(event, history);
  note_answered(shard, event);
  if (!shard.forgotten) {
    if (auto wrong = promises_.take(event, history)) return wrong;
  }
  const bool is_read = event.kind == Event::Kind::kReply && event.item == pb::DataItem::VALUE;
  if (is_read && shard.contract && event.clock.value() > shard.contract->last_read) {
    return Broken{"follower",
                  fmt::format("shard {} answers a read at clock {}, and the last that followers "
                              "allow is {}",
                              event.shard.value(), event.clock.value(), shard.contract->last_read)};
  }
  if (shard.forgotten || is_of_moved(shard, event, history)) return std::nullopt;
  if (is_of_slice(event) && event.item == pb::DataItem::SETTLED) return std::nullopt;
  switch (event.kind) {
    case Event::Kind::kView:
      return take_view(shard, history.views()[event.view]);
    case Event::Kind::kGreeted:
      shard.greeted.insert(event.peer);
      return std::nullopt;
    case Event::Kind::kOpened:
      shard.open = true;
      return std::nullopt;
    case Event::Kind::kRequest:
      if (!shard.greeted.contains(event.peer)) return std::nullopt;
      if (!shard.open || !shard.contract) {
        return Broken{"answer", fmt::format("shard {} is asked before its tables are open",
                                            event.shard.value())};
      }
      if (auto wrong = check_weight(event)) return wrong;
      return oracle(shard, event.table, event.slice)
          .request(event, history.rows(event), *shard.contract);
    case Event::Kind::kPutAside:
      ++captured_;
      return oracle(shard, event.table, event.slice)
          .captured(event, history.values(event), history.rows(event), *shard.contract);
    case Event::Kind::kMissed:
      return answers_late_ ? std::nullopt : check_missed(shard, event);
    case Event::Kind::kReply:
      return oracle(shard, event.table, event.slice)
          .reply(event, history.values(event), *shard.contract);
    default:
      for (SliceOracle* slice : std::exchange(shard.touched, {})) {
        if (auto wrong = slice->end_step()) return wrong;
      }
      return std::nullopt;
  }
}

SliceOracle& Checker::oracle(ShardSide& shard, TableId table, SliceId slice) {
  auto& entry = shard.slices[{table.value(), slice.value()}];
  if (!entry) {
    std::optional<RowModel> rows;
    if (const ToyRows* by_rows = job_.rows_of(table)) {
      rows.emplace(*by_rows, table, slice, shard.contract->seed);
    }
    entry = std::make_unique<SliceOracle>(table, slice, std::move(rows));
    entry->take_view(*shard.contract);
  }
  if (std::ranges::find(shard.touched, entry.get()) == shard.touched.end()) {
    shard.touched.push_back(entry.get());
  }
  return *entry;
}

void Checker::give_away(ShardSide& shard, const SliceKey& key) {
  if (shard.slices.contains(key)) {
    std::erase(shard.touched, shard.slices.at(key).get());
    shard.slices.erase(key);
  }
  shard.moved.insert(key);
}

void Checker::take_over(const Event& event) {
  const SliceKey key{event.table.value(), event.slice.value()};
  for (auto& [number, shard] : shards_) give_away(shard, key);
  // Images bring the tables, perhaps before any member has opened them there.
  shards_[event.shard.value()].open = true;
  shards_[event.shard.value()].moved.insert(key);
  moved_to_[key] = event.shard.value();
  moved_values_.erase(key);
}

/// Whether an event concerns a slice that was taken over. Records the slice's newest snapshot.
bool Checker::is_of_moved(const ShardSide& shard, const Event& event, const History& history) {
  const SliceKey key{event.table.value(), event.slice.value()};
  if (!is_of_slice(event) || !(answers_late_ || shard.moved.contains(key))) return false;
  const auto host = moved_to_.find(key);
  const bool is_host =
      host == moved_to_.end() ? answers_late_ : host->second == event.shard.value();
  if (event.item == pb::DataItem::SNAPSHOT_VALUE && event.kind == Event::Kind::kReply && is_host) {
    const auto values = history.values(event);
    moved_values_[key].assign(values.begin(), values.end());
  }
  return true;
}

std::optional<Broken> Checker::take_view(ShardSide& shard, const pb::ServerJob& view) {
  if (view.finished()) {
    shard.forgotten = true;
    return std::nullopt;
  }
  shard.contract = Contract::of(view, job_.tables);
  for (const auto& [worker, member] : shard.contract->members) shard.known.insert(worker);
  limit_reads(shard);
  if (view.revision() > newest_revision_) {
    newest_revision_ = view.revision();
    // What forgotten members did remains in the values.
    auto former = std::move(newest_.members);
    newest_ = *shard.contract;
    newest_.members.merge(former);
    if (auto wrong = check_cut(newest_)) return wrong;
    if (const auto both = newest_.find_shared_slot()) {
      return Broken{"slots",
                    fmt::format("workers {} and {} have slot {} at the same clock", both->first,
                                both->second, newest_.members.at(both->first).slot)};
    }
  }
  for (auto& [key, slice] : shard.slices) {
    if (auto wrong = slice->forgotten_early(*shard.contract)) return wrong;
    slice->take_view(*shard.contract);
    shard.touched.push_back(slice.get());
  }
  for (auto& [number, worker] : workers_) {
    for (auto& [table, read] : worker.reading) {
      read.slack = std::max(read.slack, shard.contract->widest_at(read.clock));
    }
  }
  return std::nullopt;
}

/// A shard reports that a checkpoint order arrived too late.
std::optional<Broken> Checker::check_missed(const ShardSide& shard, const Event& event) const {
  bool late = std::ranges::any_of(
      shard.slices, [&](const auto& entry) { return entry.second->missed(event.view); });
  // Nothing was requested from it yet: its slices are as its members' first clocks make them.
  for (std::uint32_t table = 0; shard.slices.empty() && table < job_.tables; ++table) {
    SliceOracle fresh(TableId(table), SliceId(0), std::nullopt);
    fresh.take_view(*shard.contract);
    late |= fresh.missed(event.view);
  }
  if (late || !shard.moved.empty()) return std::nullopt;
  return Broken{"checkpoint",
                fmt::format("shard {} says that order {} arrived too late, and it did not",
                            event.shard.value(), event.view)};
}

/// The coordinator may cut off a lost worker no lower than what every slice accepted from it.
std::optional<Broken> Checker::check_cut(const Contract& contract) {
  for (const auto& [worker, member] : contract.members) {
    if (member.leave == kNever) continue;
    std::int64_t everywhere = kNever;
    std::size_t slices = 0;
    for (const auto& [number, shard] : shards_) {
      for (const auto& [key, slice] : shard.slices) {
        everywhere = std::min(everywhere, slice->done(worker));
        ++slices;
      }
    }
    if (slices < job_.slice_count()) continue;  // some were never requested
    if (member.leave < everywhere) {
      return Broken{"cut", fmt::format("worker {} is cut off from clock {}, but every slice has "
                                       "accepted its updates up to {}",
                                       worker, member.leave, everywhere)};
    }
  }
  return std::nullopt;
}

}  // namespace taut::sim
