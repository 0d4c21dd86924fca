#include "worker/collective/neighbour_mix.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/check.hpp"

namespace taut::collective {
namespace {

constexpr std::size_t kLanes = 8;

}  // namespace

double mix(std::span<const float> own, std::span<const float> received,
           const std::vector<Neighbours::Source>& sources, std::span<float> mixed) {
  const std::size_t count = own.size();
  std::ranges::copy(own, mixed.begin());
  double distance = 0;
  for (std::size_t source = 0; source < sources.size(); ++source) {
    const std::span<const float> theirs = received.subspan(source * count, count);
    const float weight = sources[source].weight;
    // Several sums, so that an addition need not wait for the previous one.
    std::array<double, kLanes> squares{};
    for (std::size_t i = 0; i < count; ++i) {
      const float apart = theirs[i] - own[i];
      mixed[i] += weight * apart;
      squares[i % kLanes] += static_cast<double>(apart) * static_cast<double>(apart);
    }
    distance += static_cast<double>(weight) * std::accumulate(squares.begin(), squares.end(), 0.0);
  }
  return distance;
}

NeighbourMix::NeighbourMix(ReplicaValues& values, BufferPool& pool, Graph graph, Bytes bucket)
    : values_(values), pool_(pool), graph_(graph), sizes_(values.gradient_sizes()) {
  const std::size_t most = bucket.value() / sizeof(float);
  for (std::size_t table = 0; table < sizes_.size(); ++table) {
    if (buckets_.empty() || buckets_.back().count >= most) buckets_.emplace_back();
    buckets_.back().tables.push_back(table);
    buckets_.back().count += sizes_[table];
  }
}

void NeighbourMix::enter(Rank own, std::uint32_t ranks) {
  neighbours_ = neighbours_of(graph_, own, ranks);
  has_begun_ = false;
  // Others may never return what they read: new memory takes its place.
  for (Bucket& bucket : buckets_) {
    bucket.exchange.reset();
    bucket.values = Buffer();
  }
}

std::vector<Buffer> NeighbourMix::lent() const {
  std::vector<Buffer> lent;
  lent.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) lent.push_back(bucket.values);
  return lent;
}

bool NeighbourMix::is_lent() const {
  return std::ranges::any_of(buckets_, [](const Bucket& bucket) {
    return bucket.values.size() > 0 && !bucket.values.unshared();
  });
}

Result<void> NeighbourMix::begin(AllReduceGroup& group) {
  for (Bucket& bucket : buckets_) {
    const std::size_t bytes = bucket.count * (1 + neighbours_.from.size()) * sizeof(float);
    // A neighbour that computes may not have read those of the previous clock yet.
    const bool is_free = bucket.values.size() == bytes && bucket.values.unshared();
    if (!is_free) bucket.values = pool_.acquire(bytes);
    std::span<float> rest = bucket.values.floats();
    for (const std::size_t table : bucket.tables) {
      values_.read_values(table, rest.first(sizes_[table]));
      rest = rest.subspan(sizes_[table]);
    }
    TAUT_TRY(bucket.exchange,
             group.begin_exchange(bucket.values, exchange_schedule(neighbours_, bucket.count),
                                  bucket.count));
  }
  has_begun_ = true;
  return ok();
}

Result<void> NeighbourMix::wait(AllReduceGroup& group) {
  for (const Bucket& bucket : buckets_) {
    TAUT_TRY(group.wait(*bucket.exchange));
  }
  return ok();
}

void NeighbourMix::take() {
  distance_ = 0;
  for (Bucket& bucket : buckets_) {
    // Others may still read this rank's values, so they must not change.
    const std::span<const float> all = std::as_const(bucket.values).floats();
    const std::span<const float> own = all.first(bucket.count);
    mixed_.resize(bucket.count);
    *distance_ += mix(own, all.subspan(bucket.count), neighbours_.from, mixed_);
    std::size_t begin = 0;
    for (const std::size_t table : bucket.tables) {
      values_.write_mixed(table, own.subspan(begin, sizes_[table]),
                          std::span<const float>(mixed_).subspan(begin, sizes_[table]));
      begin += sizes_[table];
    }
    bucket.exchange.reset();
  }
  has_begun_ = false;
}

}  // namespace taut::collective
