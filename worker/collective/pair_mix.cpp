#include "worker/collective/pair_mix.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/check.hpp"
#include "common/math/philox.hpp"

namespace taut::collective {

double mix_two(std::span<const float> own, std::span<const float> theirs, std::span<float> mixed) {
  double squares = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double apart = static_cast<double>(theirs[i]) - static_cast<double>(own[i]);
    squares += apart * apart;
    mixed[i] = 0.5F * (own[i] + theirs[i]);
  }
  return squares;
}

PairMix::PairMix(ReplicaValues& values, BufferPool& pool, Graph graph, std::uint64_t seed)
    : values_(values),
      pool_(pool),
      graph_(graph),
      seed_(seed),
      sizes_(values.gradient_sizes()),
      model_(std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0})) {}

void PairMix::enter(Rank own, std::uint32_t ranks) {
  own_ = own;
  is_active_ = is_active(graph_, own, ranks);
  partners_ = partners_of(graph_, own, ranks);
  has_begun_ = false;
  pair_.reset();
  // Others may never return what they read: new memory takes its place.
  request_ = Buffer();
  answer_ = Buffer();
}

Schedule PairMix::links() const {
  Schedule links;
  for (const Rank partner : partners_) {
    add_send(links, Phase::kFinal, partner.value(), {0, 1});
    add_receive(links, Phase::kFinal, partner.value(), {0, 1});
  }
  return links;
}

void PairMix::set_values() {
  std::span<float> rest(model_);
  for (std::size_t table = 0; table < sizes_.size(); ++table) {
    values_.read_values(table, rest.first(sizes_[table]));
    rest = rest.subspan(sizes_[table]);
  }
  is_known_ = true;
}

Result<void> PairMix::begin(AllReduceGroup& group) {
  has_begun_ = true;
  if (!is_active_ || partners_.empty() || model_.empty()) return ok();
  const std::size_t bytes = 2 * model_.size() * sizeof(float);
  // A partner may still read those of the previous clock.
  const bool is_free = request_.size() == bytes && request_.unshared();
  if (!is_free) request_ = pool_.acquire(bytes);
  std::ranges::copy(model_, request_.floats().begin());
  const auto chance = math::Philox::at(seed_, own_.value(), ++draws_);
  TAUT_TRY(pair_, group.begin_pair(partners_[chance.words[0] % partners_.size()], request_));
  return ok();
}

Result<void> PairMix::wait(AllReduceGroup& group) {
  return pair_ ? group.wait(*pair_) : ok();
}

void PairMix::take() {
  if (pair_) {
    // The partner may still read this rank's values, so they must not change.
    const std::span<const float> theirs =
        std::as_const(request_).floats().subspan(model_.size(), model_.size());
    distance_ = 0.5 * mix_two(model_, theirs, model_);
    pair_.reset();
  }
  std::span<const float> rest(model_);
  for (std::size_t table = 0; table < sizes_.size(); ++table) {
    scratch_.resize(sizes_[table]);
    values_.read_values(table, scratch_);
    values_.write_mixed(table, scratch_, rest.first(sizes_[table]));
    rest = rest.subspan(sizes_[table]);
  }
  // Until the rule has been applied: an average with these values would be lost.
  is_known_ = false;
  has_begun_ = false;
}

void PairMix::answer(AllReduceGroup& group) {
  if (is_active_ || !is_known_) return;
  while (const auto request = group.take_request()) {
    const std::size_t bytes = model_.size() * sizeof(float);
    if (answer_.size() != bytes || !answer_.unshared()) answer_ = pool_.acquire(bytes);
    std::ranges::copy(model_, answer_.floats().begin());
    group.answer(*request, answer_);
    distance_ = 0.5 * mix_two(model_, std::as_const(request->values).floats(), model_);
  }
}

std::vector<Buffer> PairMix::lent() const {
  return {request_, answer_};
}

bool PairMix::is_lent() const {
  const auto is_shared = [](const Buffer& buffer) {
    return buffer.size() > 0 && !buffer.unshared();
  };
  return is_shared(request_) || is_shared(answer_);
}

}  // namespace taut::collective
