#include "lab/contract/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/toy_compression.hpp"
#include "lab/toy_outer.hpp"
#include "lab/toy_policies.hpp"

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

/// Whether an event is of a slice that was taken over. The newest snapshot of it is noted.
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

/// What a shard's followers have confirmed there, and what that lets its members read.
void Checker::limit_reads(ShardSide& shard) {
  Contract& contract = *shard.contract;
  std::erase_if(shard.confirmed,
                [&](const auto& entry) { return !contract.followers.contains(entry.first); });
  contract.last_read = kNever;
  for (const auto& [follower, from] : contract.followers) {
    const std::int64_t confirmed = shard.confirmed.try_emplace(follower, from).first->second;
    contract.last_read = std::min(contract.last_read, confirmed + contract.follower_slack);
  }
}

/// A follower may confirm what its program has taken, and no more.
std::optional<Broken> Checker::take_confirmation(ShardSide& shard, const Event& event) {
  const std::uint64_t follower = event.incarnation.value();
  const std::int64_t version = event.version.value();
  const auto taken = taken_.find(follower);
  if (taken == taken_.end() || taken->second < version) {
    return Broken{"follower",
                  fmt::format("follower {} confirms version {}, and has taken {}", follower,
                              version, taken == taken_.end() ? -1 : taken->second)};
  }
  const auto known = shard.confirmed.find(follower);
  if (!shard.contract || shard.forgotten || known == shard.confirmed.end()) return std::nullopt;
  known->second = std::max(known->second, version);
  limit_reads(shard);
  for (auto& [key, slice] : shard.slices) {
    slice->take_confirmation(*shard.contract);
    shard.touched.push_back(slice.get());
  }
  return std::nullopt;
}

/// How many updates of a member that was lost with a primary are still there: where they are
/// logged, those that some worker has read.
std::int64_t Checker::kept_for_sure(TableId table, std::uint32_t slice,
                                    std::uint32_t member) const {
  std::int64_t most = 0;
  if (!logs_updates_) return most;
  for (const auto& [number, reader] : workers_) {
    const auto seen = reader.seen.find(table.value());
    if (seen == reader.seen.end() || seen->second.empty()) continue;
    const float count = seen->second[std::size_t{slice} * kSliceElements + 2UL * member];
    most = std::max(most, static_cast<std::int64_t>(-count));
  }
  return most;
}

/// Notes whose updates a shard owed a follower when it answered.
void Checker::note_answered(const ShardSide& shard, const Event& event) {
  const bool is_answer =
      event.kind == Event::Kind::kReply && event.item == pb::DataItem::FOLLOW_VALUE;
  if (!is_answer || !servers_are_lost_) return;
  auto& versions = answered_[{event.table.value(), event.slice.value()}];
  const auto [entry, is_first] = versions.try_emplace(event.clock.value(), shard.known);
  if (!is_first) std::erase_if(entry->second, [&](auto one) { return !shard.known.contains(one); });
}

/// Whether a model of this version owes a member's updates in this slice. A primary may have
/// answered with updates that were lost with it and their worker; a worker that joined since then
/// trains those clocks again, and the model that was read is not changed.
bool Checker::was_due(const SliceKey& slice, std::int64_t version, std::uint32_t member) const {
  const auto versions = answered_.find(slice);
  if (!moved_to_.contains(slice) || versions == answered_.end()) return true;
  const auto known = versions->second.find(version);
  return known == versions->second.end() || known->second.contains(member);
}

/// Every slice of a follower's model holds each member's updates before its version; in BSP no
/// others.
std::optional<Broken> Checker::check_model(const Event& event, std::span<const float> values) {
  std::int64_t& taken = taken_[event.incarnation.value()];
  const std::int64_t version = event.version.value();
  if (version < taken) {
    return Broken{"follow", fmt::format("a follower that had version {} gets {}", taken, version)};
  }
  taken = version;
  if (!job_.counts() || job_.policies.backup_workers() > 0) return std::nullopt;
  for (std::uint32_t slice = 0; slice < job_.slices; ++slice) {
    const auto part = values.subspan(std::size_t{slice} * kSliceElements, kSliceElements);
    for (const auto& [worker, member] : newest_.members) {
      if (!was_due({event.table.value(), slice}, version, worker)) continue;
      const bool may_lack = member.fenced && moved_to_.contains({event.table.value(), slice});
      const auto count = static_cast<std::int64_t>(-part[2UL * worker]);
      std::int64_t due = newest_.pushes(member.join, std::min(version, member.leave));
      if (may_lack) due = std::min(due, kept_for_sure(event.table, slice, worker));
      // The next update may be of a later clock, at which the mode is another one.
      const bool is_exact = version > 0 && !member.fenced && newest_.aggregates_at(version - 1) &&
                            newest_.aggregates_at(newest_.next_push(version, event.table.value()));
      if (count < due || (is_exact && count > due)) {
        return Broken{"follow",
                      fmt::format("a model of version {} holds {} updates of worker {} in "
                                  "table {} slice {}; {} are due",
                                  version, count, worker, event.table.value(), slice, due)};
      }
    }
  }
  return std::nullopt;
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

/// A shard says that an order of a checkpoint arrived too late.
std::optional<Broken> Checker::check_missed(const ShardSide& shard, const Event& event) const {
  bool late = std::ranges::any_of(
      shard.slices, [&](const auto& entry) { return entry.second->missed(event.view); });
  // Nothing was asked of it yet: its slices are as its members' first clocks make them.
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

/// The coordinator may cut a lost worker off no lower than what every slice accepted from it.
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
    if (slices < job_.slice_count()) continue;  // some were never asked
    if (member.leave < everywhere) {
      return Broken{"cut", fmt::format("worker {} is cut off from clock {}, but every slice has "
                                       "accepted its updates up to {}",
                                       worker, member.leave, everywhere)};
    }
  }
  return std::nullopt;
}

std::optional<Broken> Checker::next_at_worker(const Event& event, const History& history) {
  WorkerSide& worker = workers_[event.worker.value()];
  const std::uint32_t table = event.table.value();
  const std::int64_t clock = event.clock.value();
  switch (event.kind) {
    case Event::Kind::kReadsFrom:
      worker.join = clock;
      return std::nullopt;
    case Event::Kind::kPushed:
      worker.pushed[table] = clock + 1;
      if (job_.balance) {
        parts_[clock][event.worker.value()] = {event.first_record, event.records};
      }
      if (clock >= job_.first_step()) ++worker.pushes[table];
      worker.rows.note_push(event.table, event.clock, history.rows(event));
      return std::nullopt;
    case Event::Kind::kReading: {
      OpenRead read{clock, 0};
      for (const auto& [number, shard] : shards_) {
        if (shard.contract) read.slack = std::max(read.slack, shard.contract->widest_at(clock));
      }
      worker.reading[table] = read;
      return std::nullopt;
    }
    case Event::Kind::kRead:
      return check_read(event, history);
    case Event::Kind::kFinished:
      worker.finished = true;
      return check_accepted(event, worker);
    case Event::Kind::kFailed: {
      const auto member = newest_.members.find(event.worker.value());
      if (worker.finished || member == newest_.members.end() || member->second.fenced) {
        return std::nullopt;
      }
      if (servers_are_lost_ && !newest_.replicated) return std::nullopt;
      return Broken{"survivor",
                    fmt::format("worker {}, which is not lost, cannot continue: its client "
                                "gave up at clock {}",
                                event.worker.value(), clock)};
    }
    default:
      return std::nullopt;
  }
}

/// A worker believes that everything it pushed was accepted.
std::optional<Broken> Checker::check_accepted(const Event& event, WorkerSide& worker) {
  const std::uint32_t number = event.worker.value();
  const auto member = newest_.members.find(number);
  for (const auto& [host, shard] : shards_) {
    for (const auto& [key, slice] : shard.slices) {
      const std::int64_t pushed = worker.pushed[key.first];
      // One that joined when all was done has pushed nothing, and a slice need not know it.
      if (pushed == 0 || slice->done(number) >= pushed) continue;
      // A slice forgets one that was lost, once it has all up to where that one left.
      const bool is_forgotten = shard.contract && !shard.contract->members.contains(number);
      const std::int64_t leave = member == newest_.members.end() ? kNever : member->second.leave;
      if (is_forgotten && leave != kNever && leave >= pushed) continue;
      return Broken{"ack", fmt::format("worker {} believes that all it pushed up to clock {} was "
                                       "accepted; table {} slice {} waits for {}",
                                       number, event.clock.value(), key.first, key.second,
                                       slice->done(number))};
    }
  }
  return std::nullopt;
}

std::optional<Broken> Checker::check_read(const Event& event, const History& history) {
  WorkerSide& worker = workers_[event.worker.value()];
  const std::uint32_t table = event.table.value();
  const auto open = worker.reading.find(table);
  if (open == worker.reading.end() || open->second.clock != event.clock.value()) {
    return Broken{"answer", fmt::format("worker {} gets table {} at clock {}, which it did not ask "
                                        "for",
                                        event.worker.value(), table, event.clock.value())};
  }
  const OpenRead read = open->second;
  worker.reading.erase(open);
  ++reads_;
  // V itself is where members have pushed last.
  const std::int64_t complete = newest_.next_push(event.version.value(), table);
  if (read.slack != kNever && complete < read.clock - read.slack) {
    return Broken{"bound", fmt::format("worker {} reads table {} at clock {} with V = {} under "
                                       "slack {}",
                                       event.worker.value(), table, read.clock,
                                       event.version.value(), read.slack)};
  }
  if (job_.rows_of(event.table) != nullptr) return check_rows(event, history, read);
  const auto [version, first_time] = worker.version.try_emplace(table, event.version.value());
  if (event.version.value() < version->second) {
    return Broken{"order",
                  fmt::format("worker {} has seen table {} at V = {}, and now sees V = {}",
                              event.worker.value(), table, version->second, event.version.value())};
  }
  version->second = event.version.value();
  if (!job_.counts()) return std::nullopt;
  const auto values = history.values(event);
  for (std::uint32_t slice = 0; slice < job_.slices; ++slice) {
    const auto part = values.subspan(std::size_t{slice} * kSliceElements, kSliceElements);
    auto wrong = job_.policies.backup_workers() > 0 ? check_counted(event, part, slice)
                                                    : check_holdings(event, read, part, slice);
    if (wrong) return wrong;
  }
  worker.seen[table].assign(values.begin(), values.end());
  return std::nullopt;
}

std::optional<Broken> Checker::check_holdings(const Event& event, const OpenRead& read,
                                              std::span<const float> values, std::uint32_t slice) {
  WorkerSide& reader = workers_[event.worker.value()];
  const std::vector<float>& seen = reader.seen[event.table.value()];
  const auto where = [&](std::uint32_t of) {
    return fmt::format(
        "worker {} at clock {}, table {} slice {}: of worker {}'s updates it holds {}",
        event.worker.value(), read.clock, event.table.value(), slice, of, -values[2UL * of]);
  };
  for (const auto& [other, member] : newest_.members) {
    const auto count = static_cast<std::int64_t>(-values[2UL * other]);
    // With a primary and a worker, what the backup did not have of that worker's updates is lost.
    const bool may_lack = member.fenced && moved_to_.contains({event.table.value(), slice});
    const std::int64_t bound = read.slack == kNever ? member.join : read.clock - read.slack;
    const std::int64_t least = newest_.pushes(member.join, std::min(bound, member.leave));
    const bool own = other == event.worker.value();
    if (!own && count < least && !may_lack) {
      return Broken{"bound", fmt::format("{}, of which it needs {}", where(other), least)};
    }
    const std::int64_t due = newest_.pushes(member.join, read.clock);
    if (own && count != due) {
      return Broken{"own write", fmt::format("{} of {}", where(other), due)};
    }
    const auto pushed = workers_.find(other);
    std::int64_t most = 0;
    if (pushed != workers_.end()) {
      const auto pushes_made = pushed->second.pushes.find(event.table.value());
      if (pushes_made != pushed->second.pushes.end()) most = pushes_made->second;
    }
    if (count > most) {
      return Broken{"once", fmt::format("{}; it has pushed {}", where(other), most)};
    }
    if (static_cast<double>(-values[2UL * other + 1]) != newest_.names(member.join, count)) {
      return Broken{"once", fmt::format("{}, but they are not its first ones", where(other))};
    }
    const bool is_fewer =
        !seen.empty() &&
        count < static_cast<std::int64_t>(-seen[std::size_t{slice} * kSliceElements + 2UL * other]);
    if (is_fewer && !(may_lack && !logs_updates_)) {
      return Broken{"order", fmt::format("{}, fewer than it has seen before", where(other))};
    }
  }
  // Also those that the newest view names no more.
  for (std::uint32_t of = 0; logs_updates_ && !seen.empty() && of < kMembers; ++of) {
    if (-values[2UL * of] < -seen[std::size_t{slice} * kSliceElements + 2UL * of]) {
      return Broken{"order", fmt::format("{}, fewer than it has seen before", where(of))};
    }
  }
  return std::nullopt;
}

/// How many updates the aggregates of a slice before a version are made of at least. With a primary
/// and a worker, what the backups did not have of that worker's updates is lost: where it has been
/// taken over, the worker left earlier.
double Checker::required_until(std::int64_t version, const SliceKey& slice) const {
  const bool may_lack = moved_to_.contains(slice);
  double required = 0;
  for (std::int64_t clock = job_.first_step(); clock < version; ++clock) {
    required +=
        static_cast<double>(may_lack ? newest_.staying_quorum_at(clock) : newest_.quorum_at(clock));
  }
  return required;
}

std::optional<Broken> Checker::check_counted(const Event& event, std::span<const float> values,
                                             std::uint32_t slice) {
  const std::vector<float>& seen = workers_[event.worker.value()].seen[event.table.value()];
  double held = 0;
  for (const auto& [other, member] : newest_.members) {
    const auto where = [&, of = other] {
      return fmt::format(
          "worker {} at clock {}, table {} slice {}: of worker {}'s updates {} count",
          event.worker.value(), event.clock.value(), event.table.value(), slice, of,
          -values[2UL * of]);
    };
    const double count = -values[2UL * other];
    const double names = -values[2UL * other + 1];
    held += count;
    const WorkerSide& pushed = workers_[other];
    const auto pushes = pushed.pushes.find(event.table.value());
    const double most = pushes == pushed.pushes.end() ? 0 : static_cast<double>(pushes->second);
    if (count > most) return Broken{"once", fmt::format("{}; it has pushed {}", where(), most)};
    // Whichever ones count, each has another clock between its first one and its last one.
    const double next = most == 0 ? 0 : static_cast<double>(pushed.pushed.at(event.table.value()));
    if (names < newest_.names(member.join, static_cast<std::int64_t>(count)) ||
        names > count * next - count * (count - 1) / 2) {
      return Broken{"once", fmt::format("{}, but not each of another clock", where())};
    }
    if (!seen.empty() && count < -seen[std::size_t{slice} * kSliceElements + 2UL * other]) {
      return Broken{"order", fmt::format("{}, fewer than it has seen before", where())};
    }
  }
  const double required = required_until(event.version.value(), {event.table.value(), slice});
  if (held >= required) return std::nullopt;
  return Broken{"bound",
                fmt::format("worker {} at clock {}, table {} slice {}: it holds {} updates; the "
                            "aggregates below V = {} are made of {} at least",
                            event.worker.value(), event.clock.value(), event.table.value(), slice,
                            held, event.version.value(), required)};
}

std::optional<Broken> Checker::check_weight(const Event& request) const {
  const bool is_push =
      request.item == pb::DataItem::PUSH || request.item == pb::DataItem::PUSH_READ;
  if (!job_.balance || !is_push) return std::nullopt;
  const auto clock = parts_.find(request.clock.value());
  if (clock == parts_.end() || !clock->second.contains(request.worker.value())) {
    return Broken{"shares",
                  fmt::format("worker {} sends an update of clock {} that it has not made",
                              request.worker.value(), request.clock.value())};
  }
  const std::uint32_t records = clock->second.at(request.worker.value()).records;
  if (request.weight == static_cast<float>(records) / kToyBatch) return std::nullopt;
  return Broken{"shares", fmt::format("worker {}'s update of clock {} is of {} records, and counts "
                                      "as {} of equal shares of {}",
                                      request.worker.value(), request.clock.value(), records,
                                      request.weight, kToyBatch)};
}

std::optional<Broken> Checker::check_parts() const {
  const std::uint32_t batch = kToyBatch * job_.workers;
  for (const auto& [clock, parts] : parts_) {
    std::map<std::uint32_t, Part> by_place;
    std::uint32_t records = 0;
    for (const auto& [worker, part] : parts) {
      // What one that was lost has computed in addition takes part in nothing.
      const auto member = newest_.members.find(worker);
      const bool is_known = member != newest_.members.end() &&
                            !(member->second.fenced && member->second.leave == kNever);
      if (!is_known || clock >= member->second.leave) continue;
      records += part.records;
      if (by_place.emplace(part.first, part).second) continue;
      return Broken{"shares", fmt::format("two parts of clock {}'s batch begin at record {}", clock,
                                          part.first)};
    }
    std::uint32_t free = 0;
    for (const auto& [first, part] : by_place) {
      if (first < free || first + part.records > batch) {
        return Broken{"shares", fmt::format("a part of clock {}'s batch is of the records {} to "
                                            "{}, and those below {} are another's",
                                            clock, first, first + part.records, free)};
      }
      free = first + part.records;
    }
    if (by_place.size() == job_.workers && records != batch) {
      return Broken{"shares", fmt::format("all workers together compute {} of {} records of clock "
                                          "{}'s batch",
                                          records, batch, clock)};
    }
  }
  return std::nullopt;
}

std::optional<Broken> Checker::check_end(const Event& event) {
  if (auto wrong = check_parts()) return wrong;
  if (event.done == Clock(0)) {
    return Broken{"end", "the run did not end, although its network healed"};
  }
  if (event.done == Clock(2)) return std::nullopt;  // ended early for a reason that is no failure
  if (auto wrong = check_moved_at_end()) return wrong;
  for (const auto& [number, shard] : shards_) {
    for (const auto& [key, slice] : shard.slices) {
      if (!slice->rows()) continue;
      if (auto wrong = check_rows_at_end(*slice, key)) return wrong;
    }
  }
  if (job_.policies.backup_workers() > 0) return check_counted_at_end();
  for (const auto& [number, worker] : workers_) {
    const auto member = newest_.members.find(number);
    if (!worker.finished || member == newest_.members.end()) continue;
    for (const auto& [shard_number, shard] : shards_) {
      for (const auto& [key, slice] : shard.slices) {
        if (slice->rows()) continue;
        const auto count = static_cast<std::int64_t>(-slice->values()[2UL * number]);
        const std::int64_t due = newest_.pushes(member->second.join, job_.clocks);
        if (!job_.counts() || count == due) continue;
        return Broken{"once", fmt::format("at the end table {} slice {} holds {} updates of worker "
                                          "{}; it pushed {}",
                                          key.first, key.second, count, number, due)};
      }
    }
  }
  return std::nullopt;
}

/// What each update of a worker adds to its count in a slice's values; 0: they do not count.
double Checker::counted_each() const {
  if (job_.counts()) return 1;
  const pb::OuterOptimizer& outer = job_.policies.periodic_averaging().outer();
  const bool is_plain = outer.type() == "SGD" && outer.momentum() == 0;
  const std::uint32_t buffer = buffer_of(job_.policies);
  const bool counts = is_plain && buffer > 0 && !job_.is_seeded && !job_.balance &&
                      !weighs(job_.policies) && keeps_counts(job_.compression, job_.clocks);
  return counts ? static_cast<double>(outer.lr()) / buffer : 0;
}

/// The values of slices that were taken over hold all that workers which ended well have pushed.
std::optional<Broken> Checker::check_moved_at_end() const {
  const double each = counted_each();
  if (each == 0 || job_.policies.backup_workers() > 0) return std::nullopt;
  for (const auto& [key, values] : moved_values_) {
    if (job_.rows_of(TableId(key.first)) != nullptr) {
      if (!job_.counts()) continue;
      if (auto wrong = check_moved_rows(key, values)) return wrong;
      continue;
    }
    for (const auto& [number, worker] : workers_) {
      const auto member = newest_.members.find(number);
      if (!worker.finished || member == newest_.members.end()) continue;
      const std::int64_t count = std::llround(-values[2UL * number] / each);
      const std::int64_t due = newest_.pushes(member->second.join, job_.clocks, key.first);
      if (count == due) continue;
      return Broken{"once", fmt::format("at the end table {} slice {}, which was taken over, holds "
                                        "{} updates of worker {}; it pushed {}",
                                        key.first, key.second, count, number, due)};
    }
  }
  return std::nullopt;
}

std::optional<Broken> Checker::check_counted_at_end() const {
  if (!job_.counts()) return std::nullopt;
  for (const auto& [number, shard] : shards_) {
    for (const auto& [key, slice] : shard.slices) {
      if (slice->rows()) continue;
      const double required = required_until(job_.clocks, key);
      double held = 0;
      for (const auto& [worker, member] : newest_.members) held += -slice->values()[2UL * worker];
      if (held >= required) continue;
      return Broken{"once", fmt::format("at the end table {} slice {} holds {} updates; the job's "
                                        "clocks are made of {} at least",
                                        key.first, key.second, held, required)};
    }
  }
  return std::nullopt;
}

}  // namespace taut::sim
