// What workers read, and what they believe about their updates.
#include <fmt/format.h>

#include <algorithm>

#include "lab/contract/checker.hpp"

namespace taut::sim {

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
      // A worker that joined when everything was done has pushed nothing; a slice need not know it.
      if (pushed == 0 || slice->done(number) >= pushed) continue;
      // A slice forgets a lost worker once it has all its updates up to the clock at which it left.
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
  // V itself is the clock at which members last pushed.
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
    // When a primary and a worker are lost, so are that worker's updates that the backup lacked.
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
  // Includes those that the newest view no longer names.
  for (std::uint32_t of = 0; logs_updates_ && !seen.empty() && of < kMembers; ++of) {
    if (-values[2UL * of] < -seen[std::size_t{slice} * kSliceElements + 2UL * of]) {
      return Broken{"order", fmt::format("{}, fewer than it has seen before", where(of))};
    }
  }
  return std::nullopt;
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
    // Whichever updates count, each has a different clock between the first and the last one.
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

/// The least number of updates in the aggregates of a slice before a version. When a primary and a
/// worker are lost, so are that worker's updates that the backups lacked: in a slice that was taken
/// over, the worker left earlier.
double Checker::required_until(std::int64_t version, const SliceKey& slice) const {
  const bool may_lack = moved_to_.contains(slice);
  double required = 0;
  for (std::int64_t clock = job_.first_step(); clock < version; ++clock) {
    required +=
        static_cast<double>(may_lack ? newest_.staying_quorum_at(clock) : newest_.quorum_at(clock));
  }
  return required;
}

}  // namespace taut::sim
