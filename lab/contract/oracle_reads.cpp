// Which reads must be answered, and which values an answer must hold.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lab/contract/slice_oracle.hpp"

namespace taut::sim {

bool SliceOracle::is_true(std::uint32_t worker, const Waiting& read,
                          const Contract& contract) const {
  if (done_.at(worker) < read.clock || read.clock > contract.last_read) return false;
  // Nothing is pushed between V and the next clock at which members meet.
  const std::int64_t complete = contract.next_push(version_, table_.value());
  return read.slack == kNever || complete >= read.clock - read.slack;
}

void SliceOracle::note_due(const Contract& contract) {
  note_follows(contract);
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    if (!is_true(waiting->first, waiting->second, contract)) {
      ++waiting;
      continue;
    }
    waiting->second.due = true;
    note_base(waiting->first, waiting->second.clock, contract);
    answerable_.emplace_back(waiting->first, waiting->second);
    waiting = waiting_.erase(waiting);
  }
}

void SliceOracle::let_through(const Event& item, const Contract& contract) {
  if (contract.max_slack == 0) return;
  for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
    auto& [worker, read] = *waiting;
    if (read.peer != item.peer || read.clock != item.clock.value()) continue;
    Waiting widened = read;
    widened.slack = contract.widest_at(read.clock);
    if (!is_true(worker, widened, contract)) return;
    answerable_.emplace_back(worker, widened);
    waiting_.erase(waiting);
    return;
  }
  // A late copy of an earlier read may still be answered under the slack that the read was given,
  // and so may a read that waited when the same message repeated it.
  for (const auto& [worker, read] : overtaken_) {
    if (read.peer != item.peer || read.clock != item.clock.value()) continue;
    Waiting widened = read;
    widened.slack = contract.widest_at(read.clock);
    if (is_true(worker, widened, contract)) answerable_.emplace_back(worker, widened);
    return;
  }
  // A push may release the waiting read, and bring the same read again.
  const auto before = std::ranges::find_if(answerable_, [&](const auto& entry) {
    return entry.second.answered && entry.second.peer == item.peer &&
           entry.second.clock == item.clock.value();
  });
  if (before == answerable_.end()) return;
  auto again = *before;
  again.second.answered = false;
  answerable_.push_back(again);
}

std::optional<Broken> SliceOracle::check_value(const Event& item, std::span<const float> values,
                                               const Contract& contract) {
  const std::int64_t clock = item.clock.value();
  let_through(item, contract);
  const auto request = std::ranges::find_if(answerable_, [&](const auto& entry) {
    return !entry.second.answered && entry.second.peer == item.peer && entry.second.clock == clock;
  });
  if (request == answerable_.end()) return not_answerable(item, contract);
  request->second.answered = true;
  const auto& [worker, read] = *request;
  if (item.version.value() < earliest_version_ || item.version.value() > version_) {
    return broken("version", fmt::format("an answer to worker {} at clock {} has V = {}; it is {}",
                                         worker, clock, item.version.value(), version_));
  }
  // Messages to several peers are not in the order in which their items were made.
  std::int64_t& said = said_.try_emplace(item.peer, last_version_).first->second;
  if (item.version.value() < said) return broken("version", "V has fallen");
  said = item.version.value();
  if (item.done.value() > done_.at(worker) || item.done.value() < clock) {
    return broken("version", fmt::format("an answer to worker {} at clock {} has done = {}; it "
                                         "is {}",
                                         worker, clock, item.done.value(), done_.at(worker)));
  }
  if (rows_) return check_rows(read, worker, values);
  if (contract.counts() && contract.backup_workers == 0) {
    if (auto wrong = check_counts(worker, read, values, contract)) return wrong;
  }
  return check_bits(worker, clock, values, contract);
}

/// Why a read must not be answered yet.
Broken SliceOracle::not_answerable(const Event& item, const Contract& contract) const {
  const std::int64_t clock = item.clock.value();
  for (const auto& [worker, read] : waiting_) {
    if (read.peer != item.peer || read.clock != clock) continue;
    if (done_.at(worker) < clock) {
      return broken("own write",
                    fmt::format("worker {} reads clock {} although {} of its updates arrived",
                                worker, clock, done_.at(worker)));
    }
    if (clock > contract.last_read) {
      return broken("follower", fmt::format("worker {} reads clock {}, and the last that followers "
                                            "allow is {}",
                                            worker, clock, contract.last_read));
    }
    return broken("bound", fmt::format("worker {} reads clock {} at V = {} under slack {}", worker,
                                       clock, version_, read.slack));
  }
  const bool fenced = std::ranges::any_of(refusals_, [&](const Refusal& refusal) {
    return refusal.peer == item.peer && refusal.kinds.front() == pb::DataItem::STALE_INCARNATION;
  });
  return broken(fenced ? "fenced" : "answer",
                fmt::format("a read at clock {} that is not open is answered", clock));
}

/// What the values must hold, by the contract alone; check_bits checks a copy that has arrived.
/// check_bits.
std::optional<Broken> SliceOracle::check_counts(std::uint32_t worker, const Waiting& read,
                                                std::span<const float> values,
                                                const Contract& contract) const {
  for (const auto& [other, member] : contract.members) {
    const auto count = static_cast<std::int64_t>(-values[2UL * other]);
    const std::int64_t bound = read.slack == kNever ? member.join : read.clock - read.slack;
    const std::int64_t least = contract.pushes(member.join, std::min(bound, member.leave));
    if (other != worker && count < least) {
      return broken("bound", fmt::format("worker {} reads clock {} under slack {} with {} of "
                                         "worker {}'s updates; {} are due",
                                         worker, read.clock, read.slack, count, other, least));
    }
  }
  const auto own = static_cast<std::int64_t>(-values[2UL * worker]);
  if (own >= contract.pushes(contract.members.at(worker).join, read.clock)) return std::nullopt;
  return broken("own write", fmt::format("worker {} reads clock {} with {} of its own updates",
                                         worker, read.clock, own));
}

/// The values must be the sum of the accepted updates, now or earlier in this step.
std::optional<Broken> SliceOracle::check_bits(std::uint32_t worker, std::int64_t clock,
                                              std::span<const float> values,
                                              const Contract& contract) const {
  const auto are_read_as = [&](std::vector<float> from, std::int64_t applications) {
    encode_for_members(contract.compression, contract.seed, table_, slice_, applications, from);
    return same_bits(values, from);
  };
  const bool known = are_read_as(values_, applications_) ||
                     std::ranges::any_of(earlier_, [&](const Earlier& before) {
                       return are_read_as(before.values, before.applications);
                     });
  if (known) return std::nullopt;
  for (const auto& [other, member] : contract.members) {
    if (!contract.counts() || values[2UL * other] == values_[2UL * other]) continue;
    return broken("once",
                  fmt::format("worker {} at clock {} reads {} updates of worker {}; {} were "
                              "accepted and are due to be applied",
                              worker, clock, -values[2UL * other], other, -values_[2UL * other]));
  }
  return broken("bits", fmt::format("worker {} at clock {} reads other bits than the accepted "
                                    "updates add up to",
                                    worker, clock));
}

/// As check_bits(), for the rows that were named.
std::optional<Broken> SliceOracle::check_rows(const Waiting& read, std::uint32_t worker,
                                              std::span<const float> values) const {
  const bool known = same_bits(values, rows_->read(read.rows)) ||
                     std::ranges::any_of(earlier_, [&](const Earlier& before) {
                       return same_bits(values, before.rows->read(read.rows));
                     });
  if (known) return std::nullopt;
  return broken("bits", fmt::format("worker {} at clock {} reads other values of the rows {} than "
                                    "the accepted updates add up to",
                                    worker, read.clock, fmt::join(read.rows, " ")));
}

}  // namespace taut::sim
