// How ranks form a group, and reach the same standing.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "common/log.hpp"
#include "worker/collective/replica_group.hpp"

namespace taut::collective {
namespace {

constexpr Duration kLookStep = std::chrono::milliseconds(5);
constexpr Duration kMaxPause = std::chrono::seconds(1);
// The first attempt to form a group lasts 1 / kAttempts of the limit, and the next ones longer if
// all ranks are reached: each costs every rank a new group, and the coordinator a number. A change
// of the ranks ends an attempt at once.
constexpr int kAttempts = 20;
// Values of a message: a tree's levels pass them on one by one, so that its depth costs little.
constexpr Bytes kTreeMessage{128UL << 10U};
// Numbers that each rank reports to the others, as float32.
constexpr std::size_t kFields = 6;
constexpr std::int64_t kHalf = 1 << 20;

float high(Clock clock) {
  const std::int64_t upper = clock.value() / kHalf;
  return static_cast<float>(upper);
}
float low(Clock clock) {
  return static_cast<float>(clock.value() % kHalf);
}
Clock clock_of(float high, float low) {
  return Clock(static_cast<std::int64_t>(high) * kHalf + static_cast<std::int64_t>(low));
}

/// Whether the meeting is over, as the sign, and how often the rule was applied to the state. A
/// rank of an earlier build reports 1 or 0: the rule was applied at each clock of the job.
float met_and_applied(const Standing& standing) {
  const auto applied =
      static_cast<float>(std::max<std::int64_t>(standing.next - standing.state_from, 0));
  return (standing.has_met ? 1.0F : -1.0F) * (2.0F + applied);
}
Clock start_of_state(Clock next, float said) {
  const float applied = std::abs(said) - 2.0F;
  return applied < 0 ? Clock(0) : next - static_cast<std::int64_t>(applied);
}

/// How far a rank with parameters is.
std::pair<Clock, bool> place_of(const Standing& standing) {
  return {standing.next, standing.has_met};
}

}  // namespace

Bytes early_limit(std::optional<Graph> graph, Rank own, std::uint32_t ranks, Bytes model) {
  std::uint64_t models = ranks;
  if (graph) {
    const std::uint64_t clocks =
        *graph == Graph::kExponential ? static_cast<std::uint64_t>(std::bit_width(ranks - 1)) : 1;
    models = neighbours_of(*graph, own, ranks).from.size() * clocks;
  }
  return Bytes(GroupOptions().early.value() + models * model.value());
}

/// Waits without limit: the coordinator decides which ranks are lost.
Result<void> ReplicaGroup::wait_for_news() {
  while (true) {
    if (stops()) return stopped();
    const auto ranks = board_.newest();
    if (ranks->number > number_ && ranks->own) return ok();
    options_.time->sleep(kLookStep);
  }
}

Result<Standing> ReplicaGroup::join(Standing own) {
  const Use use(*this);
  return regroup(own);
}

Result<Standing> ReplicaGroup::regroup(Standing own) {
  Duration pause = kLookStep;
  Duration unreached{0};
  Duration attempt = options_.limit / kAttempts;
  while (true) {
    if (is_broken_) board_.report_broken(number_);
    TAUT_TRY(wait_for_news());
    const TimePoint began = options_.time->now();
    auto standing = form(own, attempt);
    if (standing) return standing;
    if (stops()) return stopped();
    const ErrorCode code = standing.error().code;
    // A rank that does not answer may compute, for as long as a clock takes: the coordinator
    // decides whether it is lost. One that the coordinator still counts, and that no attempt has
    // reached within the limit, is behind a firewall.
    const std::string missing = group_->unreached();
    unreached = missing.empty() ? Duration(0) : unreached + (options_.time->now() - began);
    attempt = missing.empty() ? std::min<Duration>(2 * attempt, options_.limit)
                              : options_.limit / kAttempts;
    if (unreached >= options_.limit) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("{} cannot be reached: each worker must reach the others at "
                                    "these addresses",
                                    missing));
    }
    if (is_final_ || code == ErrorCode::kMismatch || code == ErrorCode::kInvalid) {
      return standing.error();
    }
    log::info("{}: {}; forming a group again", what(), standing.error().message);
    options_.time->sleep(pause);
    pause = std::min<Duration>(2 * pause, kMaxPause);
  }
}

/// Gives up the group. Ranks that are still in it may read what it has lent them.
void ReplicaGroup::retire() {
  if (!group_) return;
  sent_before_ += group_->sent().bytes;
  group_->disconnect();
  if (!has_connected_) {
    // It has lent nothing. While a rank computes, many such attempts may be made without it.
    group_.reset();
    return;
  }
  retired_.push_back({std::move(group_), {}});
  if (mix_) retired_.back().values = mix_->lent();
  for (const Bucket& bucket : buckets_) retired_.back().values.push_back(bucket.values);
}

/// limit  for the ranks to connect
Result<Standing> ReplicaGroup::form(Standing own, Duration limit) {
  const auto ranks = board_.newest();
  retire();
  forget_sums();
  is_broken_ = true;
  number_ = ranks->number;
  own_ = ranks->own->value();
  ranks_ = ranks->members.size();
  GroupOptions options;
  options.group = options_.job * 0x9E3779B97F4A7C15ULL + number_;
  options.rank = *ranks->own;
  options.members = ranks->members;
  options.algorithm = options_.algorithm;
  if (options_.algorithm == Algorithm::kDoubleTree) options.message = kTreeMessage;
  if (mix_) {
    mix_->enter(*ranks->own, static_cast<std::uint32_t>(ranks_));
    options.exchange = mix_->links();
    options.exchange_name =
        fmt::format("{} gossip over {}, ", options_.asynchronous ? "asynchronous" : "synchronous",
                    to_string(*options_.graph));
    options.pair_elements = mix_->pair_elements();
    options.acquire = [this](std::size_t bytes) { return pool_.acquire(bytes); };
  }
  const std::uint64_t elements =
      std::accumulate(gradients_.begin(), gradients_.end(), std::uint64_t{0});
  options.early = early_limit(options_.graph, options.rank, static_cast<std::uint32_t>(ranks_),
                              Bytes(elements * sizeof(float)));
  options.silence_limit = options_.limit;
  options.time = options_.time;
  options.shared_memory = options_.shared_memory;
  options.is_over = [this] {
    if (stops()) return true;
    if (!has_news()) return false;
    // If all ranks still exist, what has begun ends in this group.
    const TimePoint moved = std::max(group_->heard(), waits_since_);
    return is_broken_ || options_.time->now() >= moved + options_.patience;
  };
  group_ = std::make_unique<AllReduceGroup>(endpoint_, std::move(options));
  has_connected_ = false;
  TAUT_TRY(group_->connect(limit));
  has_connected_ = true;
  TAUT_TRY(const std::vector<Member> members, agree(own));
  retired_.clear();
  TAUT_TRY(const Standing standing, settle(own, members));
  is_broken_ = false;
  log::info("rank {} of {} {}, from clock {}", own_, members.size(), what(), standing.next.value());
  return standing;
}

/// Exchanges each rank's numbers, as a sum to which the others add zeros.
Result<std::vector<ReplicaGroup::Member>> ReplicaGroup::agree(Standing own) {
  const Buffer numbers = pool_.acquire(ranks_ * kFields * sizeof(float));
  std::ranges::fill(numbers.floats(), 0.0F);
  const std::span<float> mine = numbers.floats().subspan(own_ * kFields, kFields);
  mine[0] = high(own.next);
  mine[1] = low(own.next);
  mine[2] = met_and_applied(own);
  mine[3] = own.is_fresh ? 1.0F : 0.0F;
  mine[4] = high(options_.first);
  mine[5] = low(options_.first);
  TAUT_TRY(group_->all_reduce(numbers));
  std::vector<Member> members;
  firsts_.clear();
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const std::span<const float> one = numbers.floats().subspan(rank * kFields, kFields);
    const Clock next = clock_of(one[0], one[1]);
    const Clock first = clock_of(one[4], one[5]);
    members.push_back(
        {Standing{next, one[2] > 0, one[3] > 0, start_of_state(next, one[2])}, first});
    firsts_.push_back(first);
  }
  return members;
}

/// Whether a rank cannot continue with what it has. With a graph it can, unless it waits for a
/// meeting that is over for others: it has pushed, and another rank's copy of the result will do.
/// Without a common clock it continues to wait.
bool ReplicaGroup::is_behind(const Standing& one, const Standing& target) const {
  if (one.is_fresh || options_.asynchronous) return one.is_fresh;
  const bool differs = place_of(one) != place_of(target);
  return mix_ ? differs && !one.has_met : differs;
}

/// The standing from which this rank continues.
Standing ReplicaGroup::target_of(const Standing& own, Standing furthest) const {
  furthest.is_fresh = false;
  if (!options_.asynchronous) return furthest;
  return {.next = own.next, .has_met = own.has_met, .is_fresh = false};
}

/// Brings every rank to the standing of the furthest one, or as near as target_of() says.
Result<Standing> ReplicaGroup::settle(Standing own, const std::vector<Member>& members) {
  const auto has_trained = [](const Member& one) { return !one.standing.is_fresh; };
  const bool has_begun = std::ranges::any_of(members, has_trained);
  std::uint32_t holder = 0;
  for (std::uint32_t rank = 1; rank < members.size(); ++rank) {
    const Member& one = members[rank];
    const Member& best = members[holder];
    const bool is_better =
        has_begun ? has_trained(one) &&
                        (!has_trained(best) || place_of(one.standing) > place_of(best.standing))
                  : one.first < best.first;
    if (is_better) holder = rank;
  }
  Standing target = target_of(own, members[holder].standing);
  const auto needs = [&](const Member& one) {
    if (!has_begun) return one.first != members[holder].first;
    return is_behind(one.standing, members[holder].standing);
  };
  const Member& mine = members[own_];
  // The source of its state afterwards: its own, unless all are alike or it takes the holder's.
  const bool keeps_state = mix_ && !needs(mine);
  const Standing& source = keeps_state ? own : members[holder].standing;
  target.state_from = has_begun ? target.next - (source.next - source.state_from) : target.next;
  if (!has_begun && !needs(mine) && own.is_fresh) {
    const auto begun = values_.begin();
    is_final_ = !begun;
    TAUT_TRY(begun);
  }
  if (std::ranges::any_of(members, needs)) {
    TAUT_TRY(spread(holder, needs(mine)));
  }
  return target;
}

/// Copies one rank's parameters to the others, as a sum to which these add zeros. All take the sum,
/// since it has no negative zeros; with a graph only those that need it.
/// needs  this rank's parameters differ until then: it takes all of the sums or none
Result<void> ReplicaGroup::spread(std::uint32_t holder, bool needs) {
  const std::vector<std::size_t> sizes = values_.array_sizes();
  std::vector<Buffer> received;
  for (std::size_t array = 0; array < sizes.size(); ++array) {
    Buffer values = pool_.acquire(sizes[array] * sizeof(float));
    if (own_ == holder) {
      values_.read_array(array, values.floats());
    } else {
      std::ranges::fill(values.floats(), 0.0F);
    }
    TAUT_TRY(group_->all_reduce(values));
    if (needs) {
      received.push_back(std::move(values));
    } else if (!mix_) {
      values_.write_array(array, values.floats());
    }
  }
  for (std::size_t array = 0; array < received.size(); ++array) {
    values_.write_array(array, received[array].floats());
  }
  return ok();
}

Result<void> ReplicaGroup::spread_meeting(Standing& own, Clock clock) {
  const Use use(*this);
  // Without a common clock, averages bring a rank that missed the meeting nearer.
  if (options_.asynchronous) own.has_met = true;
  const auto is_outside = [clock](Clock first) { return first > clock; };
  while (!own.has_met && std::ranges::any_of(firsts_, is_outside)) {
    if (is_broken_ || has_news()) {
      // The meeting's result may have been replaced by what another rank had before it.
      TAUT_TRY(own, regroup(own));
      return ok();
    }
    const auto holder = std::ranges::find_if_not(firsts_, is_outside);
    // All ranks of the meeting are gone: the values of the remaining ones are from before it.
    if (holder == firsts_.end()) break;
    waits_since_ = options_.time->now();
    const auto rank = static_cast<std::uint32_t>(holder - firsts_.begin());
    own.has_met = spread(rank, !computes(clock)).has_value();
    if (own.has_met) break;
    if (stops()) return stopped();
    is_broken_ = true;
  }
  own.has_met = true;
  return ok();
}

}  // namespace taut::collective
