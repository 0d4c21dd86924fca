#include "worker/collective/replica_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "worker/collective/neighbour_mix.hpp"
#include "worker/collective/pair_mix.hpp"

namespace taut::collective {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(5);
constexpr Duration kLeaveLimit = std::chrono::seconds(2);
// Others wait this long: less than a layer of most nets takes.
constexpr Duration kWorkStep = std::chrono::microseconds(500);

std::shared_ptr<BufferAllocator> allocator_of(const std::shared_ptr<SharedArena>& arena) {
  if (!arena) return host_allocator();
  return std::static_pointer_cast<BufferAllocator>(arena);
}

std::unique_ptr<GossipMix> make_mix(ReplicaValues& values, BufferPool& pool,
                                    const ReplicaGroup::Options& options) {
  if (options.asynchronous) {
    return std::make_unique<PairMix>(values, pool, *options.graph, options.seed);
  }
  return std::make_unique<NeighbourMix>(values, pool, *options.graph, options.bucket);
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
    mix_ = make_mix(values, pool_, options_);
  } else {
    make_buckets();
  }
  if (options_.has_thread) works_ = std::thread([this] { work_until_end(); });
}

ReplicaGroup::~ReplicaGroup() {
  ends_ = true;
  if (works_.joinable()) works_.join();
}

/// On the second thread: other ranks wait for this one's part, even while it computes.
void ReplicaGroup::work_until_end() {
  while (!ends_) {
    work();
    std::this_thread::sleep_for(kWorkStep);
  }
}

void ReplicaGroup::work() {
  if (is_used_) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !group_ || is_broken_) return;
  // The call that waits for what has begun decides whether it still ends in this group.
  if (!options_.asynchronous && has_news()) return;
  is_broken_ = !group_->poll();
  if (!is_broken_) {
    if (mix_) mix_->answer(*group_);
  } else if (options_.asynchronous) {
    // The rank may wait at a meeting, and the meeting for ranks that await an answer.
    board_.report_broken(number_);
  }
}

void ReplicaGroup::set_values() {
  const std::scoped_lock lock(mutex_);
  if (mix_) mix_->set_values();
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
  const std::scoped_lock lock(mutex_);
  return {sent_before_ + (group_ ? group_->sent().bytes : 0)};
}

std::optional<double> ReplicaGroup::distance() const {
  const std::scoped_lock lock(mutex_);
  return mix_ ? mix_->distance() : std::nullopt;
}

void ReplicaGroup::forget_sums() {
  begun_ = 0;
  // Others may never return what they read: new memory takes its place.
  for (Bucket& bucket : buckets_) {
    bucket.sum.reset();
    bucket.values = Buffer();
  }
}

/// adds  false: its part of the sum is zero
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

/// exchange() deals with what fails here.
void ReplicaGroup::begin_clock() {
  const std::scoped_lock lock(mutex_);
  if (!mix_ || is_broken_ || has_news()) return;
  if (!mix_->begin(*group_)) is_broken_ = true;
}

/// As begin_clock().
void ReplicaGroup::publish(std::size_t table) {
  const std::scoped_lock lock(mutex_);
  published_[table] = true;
  if (is_broken_ || (!has_begun() && has_news())) return;
  if (!begin_published()) is_broken_ = true;
}

Result<void> ReplicaGroup::finish_sums(bool adds) {
  waits_since_ = options_.time->now();
  for (; begun_ < buckets_.size(); ++begun_) {
    TAUT_TRY(begin(buckets_[begun_], adds));
  }
  for (const Bucket& bucket : buckets_) {
    TAUT_TRY(group_->wait(*bucket.sum));
  }
  return ok();
}

Result<void> ReplicaGroup::finish_mix() {
  waits_since_ = options_.time->now();
  if (!mix_->has_begun()) {
    TAUT_TRY(mix_->begin(*group_));
  }
  return mix_->wait(*group_);
}

/// Others may still read the sums, so they must not change.
void ReplicaGroup::take_mean() {
  const float weight = std::as_const(buckets_.back().values).floats().back();
  if (!(weight > 0)) {
    // All ranks that would have computed this clock are gone: it has no mean.
    for (std::size_t table = 0; table < gradients_.size(); ++table) {
      values_.write_no_gradient(table);
    }
    return;
  }
  const float scale = 1.0F / weight;
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
  const Use use(*this);
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
    TAUT_TRY(own, regroup(own));
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

void ReplicaGroup::leave() {
  const Use use(*this);
  if (!group_ || is_broken_) return;
  const TimePoint deadline = options_.time->now() + kLeaveLimit;
  const auto is_lent = [this] {
    if (mix_) return mix_->is_lent();
    return std::ranges::any_of(buckets_, [](const Bucket& bucket) {
      return bucket.values.size() > 0 && !bucket.values.unshared();
    });
  };
  while (is_lent() && options_.time->now() < deadline) {
    if (!group_->poll()) return;
    options_.time->sleep(kStep);
  }
}

}  // namespace taut::collective
