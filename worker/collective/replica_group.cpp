#include "worker/collective/replica_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"

namespace taut::collective {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr Duration kLeaveLimit = std::chrono::seconds(2);
// Of what ranks tell each other: numbers that float32 represents.
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

std::shared_ptr<BufferAllocator> allocator_of(const std::shared_ptr<SharedArena>& arena) {
  if (!arena) return host_allocator();
  return std::static_pointer_cast<BufferAllocator>(arena);
}

/// How far along a rank is that has parameters.
std::pair<Clock, bool> place_of(const Standing& standing) {
  return {standing.next, standing.has_met};
}

}  // namespace

ReplicaGroup::ReplicaGroup(ReplicaValues& values, RankBoard& board, Endpoint& endpoint,
                           Options options)
    : values_(values),
      board_(board),
      endpoint_(endpoint),
      options_(std::move(options)),
      pool_(Bytes(0), allocator_of(options_.shared_memory)),
      gradients_(values.gradient_sizes()),
      published_(gradients_.size()) {
  if (options_.graph) {
    mix_.emplace(values, pool_, *options_.graph, options_.bucket);
  } else {
    make_buckets();
  }
}

void ReplicaGroup::make_buckets() {
  const std::size_t most = options_.bucket.value() / sizeof(float);
  for (std::size_t table = gradients_.size(); table-- > 0;) {
    if (buckets_.empty() || buckets_.back().count >= most) buckets_.emplace_back();
    buckets_.back().tables.push_back(table);
    buckets_.back().count += gradients_[table];
  }
  if (buckets_.empty()) buckets_.emplace_back();
  ++buckets_.back().count;
}

Error ReplicaGroup::stopped() const {
  return make_error(ErrorCode::kClosed, "stopped while workers exchanged among themselves");
}

ReplicaGroup::Traffic ReplicaGroup::traffic() const {
  return {sent_before_ + (group_ ? group_->sent().bytes : 0)};
}

std::optional<double> ReplicaGroup::distance() const {
  return mix_ ? mix_->distance() : std::nullopt;
}

void ReplicaGroup::forget_sums() {
  begun_ = 0;
  // Others may never give back what they read: new memory takes the place.
  for (Bucket& bucket : buckets_) {
    bucket.sum.reset();
    bucket.values = Buffer();
  }
}

/// As long as it takes: which ranks are lost is for the coordinator to say.
Result<void> ReplicaGroup::wait_for_news() {
  while (true) {
    if (stops()) return stopped();
    const auto ranks = board_.newest();
    if (ranks->number > number_ && ranks->own) return ok();
    std::this_thread::sleep_for(kStep);
  }
}

Result<Standing> ReplicaGroup::join(Standing own) {
  Duration pause = kStep;
  while (true) {
    if (is_broken_) board_.report_broken(number_);
    TAUT_TRY(wait_for_news());
    auto standing = form(own);
    if (standing) return standing;
    if (stops()) return stopped();
    const ErrorCode code = standing.error().code;
    if (is_final_ || code == ErrorCode::kMismatch || code == ErrorCode::kInvalid) {
      return standing.error();
    }
    log::info("{}: {}; forming a group again", what(), standing.error().message);
    std::this_thread::sleep_for(pause);
    pause = std::min<Duration>(2 * pause, kLongestPause);
  }
}

/// Gives the group up. Ranks that are still in it may read what it has lent them.
void ReplicaGroup::retire() {
  if (!group_) return;
  sent_before_ += group_->sent().bytes;
  group_->disconnect();
  retired_.push_back({std::move(group_), {}});
  if (mix_) retired_.back().values = mix_->lent();
  for (const Bucket& bucket : buckets_) retired_.back().values.push_back(bucket.values);
}

Result<Standing> ReplicaGroup::form(Standing own) {
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
  if (mix_) {
    mix_->enter(*ranks->own, static_cast<std::uint32_t>(ranks_));
    options.exchange = mix_->links();
    options.exchange_name = fmt::format("gossip over {}, ", to_string(mix_->graph()));
  }
  options.silence_limit = options_.limit;
  options.shared_memory = options_.shared_memory;
  options.is_over = [this] {
    if (stops()) return true;
    if (!has_news()) return false;
    // Where all are still there, what has begun ends in this group.
    const TimePoint moved = std::max(group_->heard(), waits_since_);
    return is_broken_ || steady_now() >= moved + options_.patience;
  };
  group_ = std::make_unique<AllReduceGroup>(endpoint_, std::move(options));
  TAUT_TRY(group_->connect(options_.limit));
  TAUT_TRY(const std::vector<Member> members, agree(own));
  retired_.clear();
  TAUT_TRY(const Standing standing, settle(own, members));
  is_broken_ = false;
  log::info("rank {} of {} {}, from clock {}", own_, members.size(), what(), standing.next.value());
  return standing;
}

/// Each rank's numbers, as a sum to which the others add zeros.
Result<std::vector<ReplicaGroup::Member>> ReplicaGroup::agree(Standing own) {
  const Buffer numbers = pool_.acquire(ranks_ * kFields * sizeof(float));
  std::ranges::fill(numbers.floats(), 0.0F);
  const std::span<float> mine = numbers.floats().subspan(own_ * kFields, kFields);
  mine[0] = high(own.next);
  mine[1] = low(own.next);
  mine[2] = own.has_met ? 1.0F : 0.0F;
  mine[3] = own.is_fresh ? 1.0F : 0.0F;
  mine[4] = high(options_.first);
  mine[5] = low(options_.first);
  TAUT_TRY(group_->all_reduce(numbers));
  std::vector<Member> members;
  firsts_.clear();
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const std::span<const float> one = numbers.floats().subspan(rank * kFields, kFields);
    const Clock first = clock_of(one[4], one[5]);
    members.push_back({Standing{clock_of(one[0], one[1]), one[2] > 0, one[3] > 0}, first});
    firsts_.push_back(first);
  }
  return members;
}

/// Whether a rank cannot continue with what it has. With a graph it can, unless it waits for a
/// meeting that is over for others: it has pushed, and what came of it is as good from another one.
bool ReplicaGroup::is_behind(const Standing& one, const Standing& target) const {
  if (one.is_fresh) return true;
  const bool differs = place_of(one) != place_of(target);
  return mix_ ? differs && !one.has_met : differs;
}

/// Brings every rank to the standing of the one that is furthest.
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
  Standing target = members[holder].standing;
  target.is_fresh = false;
  const auto needs = [&](const Member& one) {
    if (!has_begun) return one.first != members[holder].first;
    return is_behind(one.standing, target);
  };
  const Member& mine = members[own_];
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

/// One rank's parameters become everyone's, as a sum to which the others add zeros. All take the
/// sum, since it has no negative zeros; but with a graph only those that need it.
/// needs  this rank's own are others until then: it takes all of the sums or none
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

/// adds  otherwise its part of the sum is zero
Result<void> ReplicaGroup::begin(Bucket& bucket, bool adds) {
  const std::size_t bytes = bucket.count * sizeof(float);
  if (bucket.values.size() != bytes) {
    bucket.values = pool_.acquire(bytes);
  } else {
    TAUT_TRY(group_->wait_until_free(bucket.values));
  }
  std::span<float> rest = bucket.values.floats();
  if (!adds) {
    std::ranges::fill(rest, 0.0F);
  } else {
    for (const std::size_t table : bucket.tables) {
      values_.read_gradient(table, rest.first(gradients_[table]));
      rest = rest.subspan(gradients_[table]);
    }
    if (!rest.empty()) rest[0] = 1.0F;
  }
  TAUT_TRY(bucket.sum, group_->begin(bucket.values));
  return ok();
}

Result<void> ReplicaGroup::begin_published() {
  while (!mix_ && begun_ < buckets_.size()) {
    Bucket& bucket = buckets_[begun_];
    const auto is_published = [this](std::size_t table) { return published_[table]; };
    if (!std::ranges::all_of(bucket.tables, is_published)) break;
    TAUT_TRY(begin(bucket, true));
    ++begun_;
  }
  return group_->poll();
}

/// What fails here shows in exchange().
void ReplicaGroup::begin_clock() {
  if (!mix_ || is_broken_ || has_news()) return;
  if (!mix_->begin(*group_)) is_broken_ = true;
}

/// As begin_clock().
void ReplicaGroup::publish(std::size_t table) {
  published_[table] = true;
  if (is_broken_ || (!has_begun() && has_news())) return;
  if (!begin_published()) is_broken_ = true;
}

Result<void> ReplicaGroup::finish_sums(bool adds) {
  waits_since_ = steady_now();
  for (; begun_ < buckets_.size(); ++begun_) {
    TAUT_TRY(begin(buckets_[begun_], adds));
  }
  for (const Bucket& bucket : buckets_) {
    TAUT_TRY(group_->wait(*bucket.sum));
  }
  return ok();
}

Result<void> ReplicaGroup::finish_mix() {
  waits_since_ = steady_now();
  if (!mix_->has_begun()) {
    TAUT_TRY(mix_->begin(*group_));
  }
  return mix_->wait(*group_);
}

/// Others may still read the sums, so they stay as they are.
void ReplicaGroup::take_mean() {
  // Of a clock to which no rank adds anything, as all that would are gone, the mean is zero.
  const float weight = buckets_.back().values.floats().back();
  const float scale = weight > 0 ? 1.0F / weight : 0.0F;
  for (const Bucket& bucket : buckets_) {
    std::span<const float> rest = std::as_const(bucket.values).floats();
    for (const std::size_t table : bucket.tables) {
      scratch_.resize(gradients_[table]);
      std::ranges::transform(rest.first(gradients_[table]), scratch_.begin(),
                             [scale](float value) { return value * scale; });
      values_.write_gradient(table, scratch_);
      rest = rest.subspan(gradients_[table]);
    }
  }
}

Result<bool> ReplicaGroup::exchange(Standing& own) {
  const Clock clock = own.next;
  const bool adds = computes(clock);
  while (true) {
    const bool waits_for_others = is_broken_ || (!has_begun() && has_news());
    if (!waits_for_others) {
      const Result<void> done = mix_ ? finish_mix() : finish_sums(adds);
      if (done) break;
      if (stops()) return stopped();
      is_broken_ = true;
      log::info("{}: clock {}: {}", what(), clock.value(), done.error().message);
    }
    TAUT_TRY(own, join(own));
    if (own.next > clock) {
      std::fill(published_.begin(), published_.end(), false);
      return false;
    }
  }
  if (mix_) {
    mix_->take();
  } else {
    take_mean();
  }
  begun_ = 0;
  for (Bucket& bucket : buckets_) bucket.sum.reset();
  std::fill(published_.begin(), published_.end(), false);
  return true;
}

Result<void> ReplicaGroup::spread_meeting(Standing& own, Clock clock) {
  const auto is_outside = [clock](Clock first) { return first > clock; };
  while (!own.has_met && std::ranges::any_of(firsts_, is_outside)) {
    if (is_broken_ || has_news()) {
      // What came of the meeting may have been replaced by what another rank had before it.
      TAUT_TRY(own, join(own));
      return ok();
    }
    const auto holder = std::ranges::find_if_not(firsts_, is_outside);
    // All who were in it are gone: the values of those that are left are from before it.
    if (holder == firsts_.end()) break;
    waits_since_ = steady_now();
    const auto rank = static_cast<std::uint32_t>(holder - firsts_.begin());
    own.has_met = spread(rank, !computes(clock)).has_value();
    if (own.has_met) break;
    if (stops()) return stopped();
    is_broken_ = true;
  }
  own.has_met = true;
  return ok();
}

void ReplicaGroup::leave() {
  if (!group_ || is_broken_) return;
  const TimePoint deadline = steady_now() + kLeaveLimit;
  const auto is_lent = [this] {
    if (mix_) return mix_->is_lent();
    return std::ranges::any_of(buckets_, [](const Bucket& bucket) {
      return bucket.values.size() > 0 && !bucket.values.unshared();
    });
  };
  while (is_lent() && steady_now() < deadline) {
    if (!group_->poll()) return;
    std::this_thread::sleep_for(kStep);
  }
}

}  // namespace taut::collective
