#include "lab/contract/slice_oracle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "lab/toy_outer.hpp"

namespace taut::sim {
namespace {

bool is_push(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
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

/// Section 3 of the design: a checkpoint at clock K holds every update below K; in BSP nothing
/// else.
void SliceOracle::take_order(const Contract& contract) {
  if (aside_.number != contract.checkpoint) {
    aside_ = {};
    aside_.number = contract.checkpoint;
    aside_.due = contract.checkpoint > 0;
  }
  const std::int64_t clock = contract.checkpoint_clock;
  if (!aside_.due || contract.next_push(version_, table_.value()) < clock) return;
  apply_ready(contract);
  aside_.due = false;
  aside_.exact = contract.aggregates_at(clock);
  if (aside_.exact && version_ > clock) {
    aside_.missed = true;
    return;
  }
  aside_.version = version_;
  aside_.values = values_;
  aside_.rows = rows_;
  aside_.done = applied_;
  for (const auto& [worker, member] : contract.members) {
    aside_.joined[worker] = member.join;
    aside_.least[worker] = contract.pushes(member.join, std::min(clock, member.leave));
  }
}

std::optional<Broken> SliceOracle::captured(const Event& event, std::span<const float> values,
                                            std::span<const std::uint64_t> rows,
                                            const Contract& contract) const {
  if (event.view != aside_.number || aside_.due || aside_.missed) {
    return broken("checkpoint",
                  fmt::format("is captured for order {}, which is {}", event.view,
                              event.view != aside_.number ? "not the newest" : "not due here"));
  }
  if (event.version.value() != aside_.version) {
    return broken("checkpoint", fmt::format("is captured at V = {} and not when V reached {}",
                                            event.version.value(), aside_.version));
  }
  if (rows_) return captured_rows(event, values, rows);
  const auto own = values.first(kSliceElements);
  for (const auto& [worker, done] : aside_.done) {
    const auto reported = static_cast<std::int64_t>(values[kSliceElements + worker]);
    const auto count = static_cast<std::int64_t>(-own[2UL * worker]);
    if (reported != done) {
      return broken("checkpoint",
                    fmt::format("reports done({}) = {}; {} is applied", worker, reported, done));
    }
    // The values do not show the number of updates that were omitted or weighted.
    const bool counts = contract.counts() && contract.backup_workers == 0;
    if (!counts || !aside_.joined.contains(worker)) continue;
    // From the values alone: its own first updates, as many as `done`, and at least a quorum.
    const std::int64_t join = aside_.joined.at(worker);
    const std::int64_t pushed = contract.pushes(join, reported);
    const double names = contract.names(join, pushed);
    if (count != pushed || static_cast<double>(-own[2UL * worker + 1]) != names) {
      return broken("checkpoint", fmt::format("holds {} updates of worker {} and reports done = {}",
                                              count, worker, reported));
    }
    const std::int64_t least = aside_.least.at(worker);
    const auto member = contract.members.find(worker);
    const bool stays =
        member != contract.members.end() && member->second.leave > event.clock.value();
    if (count < least || (aside_.exact && stays && count != least)) {
      return broken("checkpoint", fmt::format("of clock {} holds {} updates of worker {}, not {}",
                                              event.clock.value(), count, worker, least));
    }
  }
  if (!same_bits(own, aside_.values)) {
    return broken("bits",
                  fmt::format("the checkpoint at clock {} holds other bits than the updates "
                              "before it add up to",
                              event.clock.value()));
  }
  return std::nullopt;
}

/// What a checkpoint must hold of a bucket: the rows that are kept, and no other. `values` are
/// theirs, and behind them done(w) of each member.
std::optional<Broken> SliceOracle::captured_rows(const Event& event, std::span<const float> values,
                                                 std::span<const std::uint64_t> rows) const {
  const auto reported = values.last(kMembers);
  for (const auto& [worker, done] : aside_.done) {
    if (static_cast<std::int64_t>(reported[worker]) == done) continue;
    return broken("checkpoint", fmt::format("reports done({}) = {}; {} is applied", worker,
                                            reported[worker], done));
  }
  if (!std::ranges::equal(rows, aside_.rows->kept())) {
    return broken("checkpoint",
                  fmt::format("of clock {} holds the rows {}, not {}", event.clock.value(),
                              fmt::join(rows, " "), fmt::join(aside_.rows->kept(), " ")));
  }
  if (same_bits(values.first(values.size() - kMembers), aside_.rows->read(rows))) {
    return std::nullopt;
  }
  return broken("bits", fmt::format("the checkpoint at clock {} holds other bits than the updates "
                                    "before it add up to",
                                    event.clock.value()));
}

void SliceOracle::raise_version(const Contract& contract) {
  std::int64_t lowest = kNever;
  for (const auto& [worker, member] : contract.members) {
    // One that has left owes its updates from before then, and no others.
    const std::int64_t owed = contract.next_push(done_.at(worker), table_.value());
    if (owed < member.leave) lowest = std::min(lowest, done_.at(worker));
  }
  if (lowest == kNever) return;
  version_ = std::max(version_, lowest);
  while (contract.backup_workers > 0 && is_over(version_, contract)) ++version_;
}

/// Whether as many have pushed a clock as its aggregate needs.
bool SliceOracle::is_over(std::int64_t clock, const Contract& contract) const {
  std::size_t pushed = 0;
  for (const auto& [worker, member] : contract.members) {
    const bool takes_part = member.join <= clock && clock < member.leave;
    if (takes_part && done_.at(worker) > clock) ++pushed;
  }
  return pushed > 0 && pushed >= contract.quorum_at(clock);
}

void SliceOracle::apply_ready(const Contract& contract) {
  for (auto next = ready(contract); !next.empty(); next = ready(contract)) apply(next, contract);
}

std::vector<SliceOracle::Pushed> SliceOracle::ready(const Contract& contract) const {
  if (held_.empty()) return {};
  if (buffer_of(contract.policies) > 0) return ready_of_buffer(contract);
  const auto& [clock, workers] = *held_.begin();
  if (!contract.aggregates_at(clock)) return {{clock, workers.front()}};
  std::vector<Pushed> all;
  std::size_t arrived = 0;
  for (const std::uint32_t worker : workers) {
    const auto member = contract.members.find(worker);
    const bool takes_part = member != contract.members.end() && member->second.join <= clock &&
                            clock < member->second.leave;
    if (takes_part) ++arrived;
    all.push_back({clock, worker});
  }
  return arrived < contract.quorum_at(clock) ? std::vector<Pushed>() : all;
}

/// The oldest that fill the buffer. Fewer where no others are waited for: all that is below the
/// end or a checkpoint that is due, and what members have left behind.
std::vector<SliceOracle::Pushed> SliceOracle::ready_of_buffer(const Contract& contract) const {
  std::vector<Pushed> oldest;
  bool waits = contract.is_seeded || version_ < contract.end;
  if (aside_.due && contract.next_push(version_, table_.value()) >= contract.checkpoint_clock) {
    waits = false;
  }
  for (const auto& [clock, workers] : held_) {
    if (contract.is_seed(clock)) return {{clock, workers.front()}};
    for (const std::uint32_t worker : workers) {
      const auto member = contract.members.find(worker);
      if (member == contract.members.end() || member->second.leave != kNever) waits = false;
      if (oldest.size() < buffer_of(contract.policies)) oldest.push_back({clock, worker});
    }
  }
  const bool is_full = oldest.size() == buffer_of(contract.policies);
  return is_full || !waits ? oldest : std::vector<Pushed>();
}

void SliceOracle::apply(const std::vector<Pushed>& updates, const Contract& contract) {
  earlier_.push_back({values_, applications_, rows_});
  if (contract.is_seed(updates.front().clock)) {
    seed(updates.front().worker);
  } else {
    descend(updates, contract);
  }
  for (const Pushed& of : updates) {
    applied_[of.worker] = of.clock + 1;
    auto& left = held_.at(of.clock);
    std::erase(left, of.worker);
    if (left.empty()) held_.erase(of.clock);
  }
}

void SliceOracle::seed(std::uint32_t worker) {
  if (applications_ > 0) return;
  toy_seed(table_, slice_, WorkerId(worker), values_);
  ++applications_;
}

/// What the sum of updates that are applied as one is multiplied by.
float SliceOracle::scale_of(const std::vector<Pushed>& updates, const Contract& contract) const {
  auto members = static_cast<double>(contract.count_at(updates.back().clock));
  if (contract.backup_workers > 0) members = static_cast<double>(updates.size());
  if (buffer_of(contract.policies) > 0) members = buffer_of(contract.policies);
  // Where all updates of a clock are applied as one, it is their weighted mean.
  double weight = 0;
  for (const Pushed& of : updates) weight += weight_of(of);
  if (contract.balance && members == static_cast<double>(updates.size())) members = weight;
  return contract.mean ? static_cast<float>(1.0 / members) : 1.0F;
}

void SliceOracle::descend_rows(const std::vector<Pushed>& updates, const Contract& contract) {
  std::vector<RowModel::Pushed> pushed;
  for (const Pushed& of : updates) {
    std::vector<float> weight{weight_of(of)};
    if (!contract.aggregates_at(of.clock)) weigh(of, contract, updates.size(), weight);
    pushed.push_back({of.worker, of.clock, weight.front()});
  }
  const std::int64_t newest = updates.back().clock;
  // Several aggregates may become complete at once, as a member leaves.
  rows_->apply(pushed, scale_of(updates, contract), std::min(version_, newest + 1));
  ++applications_;
}

void SliceOracle::descend(const std::vector<Pushed>& updates, const Contract& contract) {
  if (rows_) {
    descend_rows(updates, contract);
    return;
  }
  std::vector<float> sum(kSliceElements, 0.0F);
  std::vector<float> update(kSliceElements);
  bool first = true;
  for (const Pushed& of : updates) {
    toy_update(table_, slice_, WorkerId(of.worker), Clock(of.clock), update);
    arrive(contract.compression,
           {contract.seed, contract.members.at(of.worker).slot, table_, slice_, of.clock,
            plain_.contains({of.worker, of.clock})},
           update, kept_[of.worker]);
    for (float& one : update) one *= weight_of(of);
    if (!contract.aggregates_at(of.clock)) weigh(of, contract, updates.size(), update);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = first ? update[i] : sum[i] + update[i];
    first = false;
  }
  const float scale = scale_of(updates, contract);
  for (float& one : sum) one *= scale;
  // What seeded the values was no step of the rule; where all who could were lost nothing has.
  const std::int64_t steps = std::max<std::int64_t>(applications_ - contract.first_step(), 0);
  step(contract.policies, steps, sum, values_, states_);
  ++applications_;
}

float SliceOracle::weight_of(const Pushed& of) const {
  const auto found = weights_.find({of.worker, of.clock});
  return found == weights_.end() ? 1.0F : found->second;
}

void SliceOracle::weigh(const Pushed& of, const Contract& contract, std::size_t together,
                        std::vector<float>& update) {
  const auto base = bases_.find(of.worker);
  if (base == bases_.end()) return;
  const auto since = static_cast<double>(applications_ - base->second.applications) *
                     static_cast<double>(together);
  const auto members = static_cast<double>(contract.count_at(of.clock));
  const double staleness = since / (contract.mean ? members : 1.0);
  sim::weigh(contract.policies, {update, values_, base->second.values, staleness, states_});
}

void SliceOracle::note_base(std::uint32_t worker, std::int64_t clock, const Contract& contract) {
  if (!contract.keeps_reads()) return;
  Base& base = bases_[worker];
  if (clock >= base.clock) base = {clock, applications_, values_};
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

bool SliceOracle::is_true(std::uint32_t worker, const Waiting& read,
                          const Contract& contract) const {
  if (done_.at(worker) < read.clock || read.clock > contract.last_read) return false;
  // Nothing is pushed between V and the next clock at which members meet.
  const std::int64_t complete = contract.next_push(version_, table_.value());
  return read.slack == kNever || complete >= read.clock - read.slack;
}

/// Requests of followers whose version every update before is here.
void SliceOracle::note_follows(const Contract& contract) {
  const std::int64_t until = contract.next_push(version_, table_.value());
  for (auto follow = follows_.begin(); follow != follows_.end();) {
    if (follow->second > until) {
      ++follow;
      continue;
    }
    followed_.push_back({follow->first, follow->second});
    follow = follows_.erase(follow);
  }
}

/// What a follower gets is the slice as it is of the version that it named; where that is passed,
/// nothing.
std::optional<Broken> SliceOracle::check_follow(const Event& item, std::span<const float> values,
                                                const Contract& contract) {
  const auto request = std::ranges::find_if(followed_, [&](const Followed& one) {
    return !one.answered && one.peer == item.peer && one.clock == item.clock.value();
  });
  if (request == followed_.end()) {
    return broken("follow", fmt::format("version {} is sent to a follower at V = {}, which did not "
                                        "wait for it",
                                        item.clock.value(), version_));
  }
  request->answered = true;
  const std::int64_t version = item.version.value();
  const bool is_passed = item.item == pb::DataItem::FOLLOW_PASSED;
  if (version < earliest_version_ || version > version_ ||
      is_passed != (version > request->clock)) {
    return broken("follow", fmt::format("version {} is answered with V = {}; it is {}",
                                        request->clock, version, version_));
  }
  if (is_passed) return std::nullopt;
  if (item.done.value() != contract.next_push(version, table_.value())) {
    return broken("follow", fmt::format("values of V = {} are said to be of versions up to {}",
                                        version, item.done.value()));
  }
  const bool known =
      same_bits(values, values_) || std::ranges::any_of(earlier_, [&](const Earlier& before) {
        return same_bits(values, before.values);
      });
  return known ? std::nullopt : std::optional(broken("bits", "a follower gets other values"));
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

/// What a client pushes of a bucket are the rows that its program has named there.
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
  // Whether what a worker takes for safe is so shows when a shard is taken over.
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

/// A member's update. False: it is to be refused.
bool SliceOracle::push(const Event& item, const Contract& contract) {
  const std::uint32_t worker = item.worker.value();
  const std::int64_t clock = item.clock.value();
  const std::int64_t expected = done_.at(worker);
  // V beyond a worker's own progress: its clocks up to there are over, and may be left out.
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
    // Whether it is taken in the end is what the rules of the end see.
    refusals_.push_back({item.peer, clock, {pb::DataItem::HELD}});
    return false;
  }
  if (clock >= expected) accept(worker, item, contract);
  unacknowledged_.push_back({item.peer, clock});
  note_due(contract);
  return true;
}

/// A member's read; one that comes with an update is of the clock after it.
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
    // A repeated request: one answer is enough, to the last connection.
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

std::optional<Broken> SliceOracle::reply(const Event& item, std::span<const float> values,
                                         const Contract& contract) {
  const std::int64_t clock = item.clock.value();
  switch (item.item) {
    case pb::DataItem::VALUE:
      for (Unacknowledged& update : unacknowledged_) {
        if (update.peer == item.peer && update.clock < item.done.value()) update.paid = true;
      }
      return check_value(item, values, contract);
    case pb::DataItem::SNAPSHOT_VALUE: {
      const auto request = std::ranges::find(snapshots_, item.peer, &Snapshot::peer);
      if (request == snapshots_.end()) return broken("answer", "a snapshot that was not requested");
      const auto expected = rows_ ? rows_->read(request->rows) : values_;
      snapshots_.erase(request);
      if (!same_bits(values, expected)) return broken("bits", "a snapshot of other values");
      return std::nullopt;
    }
    case pb::DataItem::FOLLOW_VALUE:
    case pb::DataItem::FOLLOW_PASSED:
      return check_follow(item, values, contract);
    case pb::DataItem::ACK: {
      bool paid = false;
      for (Unacknowledged& update : unacknowledged_) {
        if (update.peer != item.peer || update.clock >= item.done.value()) continue;
        update.paid = paid = true;
      }
      if (!paid) {
        return broken("once", fmt::format("an update of clock {} is acknowledged that the shard "
                                          "should not have accepted",
                                          clock));
      }
      return std::nullopt;
    }
    case pb::DataItem::PARKED: {
      const auto is_this = [&](const auto& entry) {
        return entry.second.peer == item.peer && entry.second.clock == clock;
      };
      const auto follow = follows_.find(item.peer);
      const bool is_follow = follow != follows_.end() && follow->second == clock;
      if (is_follow || std::ranges::any_of(waiting_, is_this) ||
          std::ranges::any_of(overtaken_, is_this)) {
        return std::nullopt;
      }
      return broken("answer",
                    fmt::format("a read at clock {} that is not too early is parked", clock));
    }
    case pb::DataItem::REFUSED: {
      for (Refusal& refusal : refusals_) {
        if (refusal.paid || refusal.peer != item.peer || refusal.clock != clock) continue;
        if (std::ranges::find(refusal.kinds, item.refusal) == refusal.kinds.end()) continue;
        refusal.paid = true;
        return std::nullopt;
      }
      return broken("refusal", fmt::format("a request at clock {} is refused as {}", clock,
                                           pb::DataItem::Refusal_Name(item.refusal)));
    }
    default:
      return broken("answer", "a shard sends what only workers may send");
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
  // A late copy of an earlier read may still be answered under the slack that it was given, and
  // what waited when the same message repeated its read.
  for (const auto& [worker, read] : overtaken_) {
    if (read.peer != item.peer || read.clock != item.clock.value()) continue;
    Waiting widened = read;
    widened.slack = contract.widest_at(read.clock);
    if (is_true(worker, widened, contract)) answerable_.emplace_back(worker, widened);
    return;
  }
  // A push may release the read that waits, and bring the same read once more.
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

/// Why a read must not be answered now.
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

/// What the values must hold, from the contract alone; a copy that has arrived is checked by
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

/// The values must be those that the accepted updates add up to, now or earlier in this step.
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

std::optional<Broken> SliceOracle::end_step() {
  for (const auto& [worker, read] : answerable_) {
    if (read.answered) continue;
    // A repeated request in one message may be answered once.
    const bool once =
        std::ranges::any_of(answerable_, [&, w = worker, &one = read](const auto& entry) {
          return entry.second.answered && entry.first == w && entry.second.clock == one.clock &&
                 entry.second.peer == one.peer;
        });
    if (once) continue;
    return broken("release",
                  fmt::format("worker {}'s read at clock {} is true at V = {}, done = {}, "
                              "slack {}, and is not answered",
                              worker, read.clock, version_, done_.at(worker),
                              read.slack == kNever ? -1 : read.slack));
  }
  for (const Unacknowledged& update : unacknowledged_) {
    if (!update.paid) {
      return broken("answer",
                    fmt::format("an update of clock {} is not acknowledged", update.clock));
    }
  }
  for (const Refusal& refusal : refusals_) {
    if (refusal.paid) continue;
    const bool fenced = refusal.kinds.front() == pb::DataItem::STALE_INCARNATION;
    return broken(fenced ? "fenced" : "answer",
                  fmt::format("a request at clock {} is not refused as {}", refusal.clock,
                              pb::DataItem::Refusal_Name(refusal.kinds.front())));
  }
  if (!snapshots_.empty()) return broken("release", "a snapshot is not answered");
  for (const Followed& one : followed_) {
    if (one.answered) continue;
    return broken("release",
                  fmt::format("a follower waits for version {}, which is there at V = {}",
                              one.clock, version_));
  }
  followed_.clear();
  answerable_.clear();
  overtaken_.clear();
  unacknowledged_.clear();
  refusals_.clear();
  earlier_.clear();
  earliest_version_ = version_;
  for (const auto& [peer, said] : said_) last_version_ = std::max(last_version_, said);
  said_.clear();
  return std::nullopt;
}

}  // namespace taut::sim
