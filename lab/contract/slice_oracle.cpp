#include "lab/contract/slice_oracle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace taut::sim {
namespace {

bool is_push(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ;
}

}  // namespace

SliceOracle::SliceOracle(TableId table, SliceId slice, std::optional<RowModel> rows)
    : table_(table),
      slice_(slice),
      values_(rows ? 0 : kSliceElements, 0.0F),
      rows_(std::move(rows)) {}

Broken SliceOracle::broken(const char* rule, std::string what) const {
  return {rule, fmt::format("table {} slice {}: {}", table_.value(), slice_.value(), what)};
}

bool SliceOracle::same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::int64_t SliceOracle::done(std::uint32_t worker) const {
  const auto found = done_.find(worker);
  return found == done_.end() ? -1 : found->second;
}

std::optional<Broken> SliceOracle::forgotten_early(const Contract& contract) const {
  for (const auto& [worker, leave] : leave_) {
    if (contract.members.contains(worker) || leave <= version_) continue;
    return broken("forgotten", fmt::format("worker {}, which is a member until clock {}, is "
                                           "forgotten at V = {}",
                                           worker, leave, version_));
  }
  return std::nullopt;
}

void SliceOracle::take_view(const Contract& contract) {
  const auto is_forgotten = [&](const auto& entry) {
    return !contract.members.contains(entry.first);
  };
  leave_.clear();
  for (const auto& [worker, member] : contract.members) {
    done_.try_emplace(worker, member.join);
    applied_.try_emplace(worker, member.join);
    leave_[worker] = member.leave;
  }
  std::erase_if(done_, is_forgotten);
  std::erase_if(applied_, is_forgotten);
  std::erase_if(waiting_, is_forgotten);
  std::erase_if(bases_, is_forgotten);
  for (auto held = held_.begin(); held != held_.end();) {
    std::erase_if(held->second, [&](std::uint32_t worker) {
      const auto member = contract.members.find(worker);
      return member != contract.members.end() && held->first >= member->second.leave;
    });
    held = held->second.empty() ? held_.erase(held) : std::next(held);
  }
  std::erase_if(waiting_,
                [&](const auto& entry) { return contract.members.at(entry.first).fenced; });
  for (auto& [worker, read] : waiting_) {
    read.slack = contract.slack_at(read.clock, std::max(read.slack, contract.slack));
  }
  raise_version(contract);
  apply_ready(contract);
  take_order(contract);
  note_due(contract);
}

void SliceOracle::raise_version(const Contract& contract) {
  std::int64_t lowest = kNever;
  for (const auto& [worker, member] : contract.members) {
    // A member that has left owes its updates from before then, and no others.
    const std::int64_t owed = contract.next_push(done_.at(worker), table_.value());
    if (owed < member.leave) lowest = std::min(lowest, done_.at(worker));
  }
  if (lowest == kNever) return;
  version_ = std::max(version_, lowest);
  while (contract.backup_workers > 0 && is_over(version_, contract)) ++version_;
}

/// Whether enough members have pushed a clock for its aggregate.
bool SliceOracle::is_over(std::int64_t clock, const Contract& contract) const {
  std::size_t pushed = 0;
  for (const auto& [worker, member] : contract.members) {
    const bool takes_part = member.join <= clock && clock < member.leave;
    if (takes_part && done_.at(worker) > clock) ++pushed;
  }
  return pushed > 0 && pushed >= contract.quorum_at(clock);
}

std::optional<Broken> SliceOracle::request(const Event& item, std::span<const std::uint64_t> rows,
                                           const Contract& contract) {
  if (item.item == pb::DataItem::SNAPSHOT) {
    snapshots_.push_back({item.peer, {rows.begin(), rows.end()}});
    return std::nullopt;
  }
  if (item.item == pb::DataItem::FOLLOW) {
    follows_[item.peer] = item.clock.value();
    note_follows(contract);
    return std::nullopt;
  }
  const auto member = contract.members.find(item.worker.value());
  if (member == contract.members.end()) {
    refusals_.push_back({item.peer, item.clock.value(), {pb::DataItem::NO_MEMBER}});
    return std::nullopt;
  }
  if (member->second.fenced || member->second.incarnation != item.incarnation.value()) {
    refusals_.push_back({item.peer, item.clock.value(), {pb::DataItem::STALE_INCARNATION}});
    return std::nullopt;
  }
  // Whether an update that a worker believes safe is safe shows when a shard is taken over.
  if (item.item == pb::DataItem::SETTLE) return std::nullopt;
  if (is_push(item.item)) {
    if (rows_) {
      if (auto wrong = check_pushed(item, rows)) return wrong;
    }
    if (!push(item, contract)) return std::nullopt;
  }
  if (item.item != pb::DataItem::PUSH) read(item, rows, contract);
  return std::nullopt;
}

/// What a client pushes for a bucket must be the rows that its program has named there.
std::optional<Broken> SliceOracle::check_pushed(const Event& item,
                                                std::span<const std::uint64_t> rows) const {
  auto expected = rows_pushed(rows_->table(), table_, item.worker, item.clock);
  std::erase_if(expected, [&](std::uint64_t row) {
    return std::ranges::find(rows_->named(), row) == rows_->named().end();
  });
  if (std::ranges::equal(rows, expected)) return std::nullopt;
  return broken("rows", fmt::format("worker {}'s update of clock {} names the rows {}, not {}",
                                    item.worker.value(), item.clock.value(), fmt::join(rows, " "),
                                    fmt::join(expected, " ")));
}

/// Handles a member's update. False: it must be refused.
bool SliceOracle::push(const Event& item, const Contract& contract) {
  const std::uint32_t worker = item.worker.value();
  const std::int64_t clock = item.clock.value();
  const std::int64_t expected = done_.at(worker);
  // V is beyond the worker's own progress: its clocks up to V are over, and may be left out.
  const bool left_out = expected < version_ && clock <= version_;
  const bool ahead =
      clock >= expected && clock != contract.next_push(expected, table_.value()) && !left_out;
  const bool held = clock >= expected && clock >= contract.hold_from;
  if (ahead || held) {
    Refusal refusal{item.peer, clock, {}};
    if (held) refusal.kinds.push_back(pb::DataItem::HELD);
    if (ahead) refusal.kinds.push_back(pb::DataItem::OUT_OF_ORDER);
    refusals_.push_back(std::move(refusal));
    return false;
  }
  if (item.is_postponed && clock >= expected) {
    // Whether it is accepted in the end is checked by the rules for the end.
    refusals_.push_back({item.peer, clock, {pb::DataItem::HELD}});
    return false;
  }
  if (clock >= expected) accept(worker, item, contract);
  unacknowledged_.push_back({item.peer, clock});
  note_due(contract);
  return true;
}

void SliceOracle::accept(std::uint32_t worker, const Event& item, const Contract& contract) {
  const std::int64_t clock = item.clock.value();
  if (item.is_plain) plain_.emplace(worker, clock);
  if (item.weight != 1) weights_[{worker, clock}] = item.weight;
  if (clock >= version_) {
    auto& workers = held_[clock];
    workers.insert(std::ranges::upper_bound(workers, worker), worker);
  }
  done_.at(worker) = clock + 1;
  raise_version(contract);
  apply_ready(contract);
  take_order(contract);
}

/// Handles a member's read; one that arrives with an update is for the clock after it.
void SliceOracle::read(const Event& item, std::span<const std::uint64_t> rows,
                       const Contract& contract) {
  const std::uint32_t worker = item.worker.value();
  const std::int64_t clock = item.clock.value() + (is_push(item.item) ? 1 : 0);
  Waiting read{clock, contract.slack_at(clock), item.peer};
  read.rows.assign(rows.begin(), rows.end());
  const auto old = waiting_.find(worker);
  const bool is_newest = old == waiting_.end() || old->second.clock <= clock;
  if (is_true(worker, read, contract)) {
    read.due = true;
    note_base(worker, clock, contract);
    answerable_.emplace_back(worker, read);
    // A repeated request: one answer is enough, to the newest connection.
    if (old != waiting_.end() && is_newest) waiting_.erase(old);
    return;
  }
  if (is_newest) {
    if (old != waiting_.end()) overtaken_.emplace_back(worker, old->second);
    waiting_[worker] = read;
  } else {
    overtaken_.emplace_back(worker, read);
  }
}

}  // namespace taut::sim
