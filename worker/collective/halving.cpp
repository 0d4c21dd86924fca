#include <bit>

#include "worker/collective/algorithms.hpp"

namespace taut::collective {
namespace {

/// A rank among the p that halve and double.
struct Halving {
  explicit Halving(const RankPlace& place)
      : p(std::bit_floor(place.ranks())), pairs(place.ranks() - p) {
    const std::uint32_t rank = place.rank.value();
    has_pair = rank < 2 * pairs;
    is_extra = has_pair && rank % 2 == 1;
    number = has_pair ? rank / 2 : rank - pairs;
  }

  [[nodiscard]] std::uint32_t rank_of(std::uint32_t other) const {
    return other < pairs ? 2 * other : other + pairs;
  }
  /// The elements of `size` consecutive parts, those with part `first` among them.
  [[nodiscard]] Range block(std::uint64_t count, std::uint32_t size, std::uint32_t first) const {
    const std::uint32_t begin = first / size * size;
    return {part_of({0, count}, p, begin).begin, part_of({0, count}, p, begin + size - 1).end};
  }

  const std::uint32_t p;
  const std::uint32_t pairs;
  bool has_pair = false;
  bool is_extra = false;     // the one of a pair that is not among the p
  std::uint32_t number = 0;  // among the p
};

}  // namespace

Schedule halving_schedule(const RankPlace& place, std::uint64_t count) {
  const Halving self(place);
  const std::uint32_t rank = place.rank.value();
  const Range all{0, count};
  Schedule schedule;
  if (self.is_extra) {
    add_send(schedule, Phase::kPartial, rank - 1, all);
    add_receive(schedule, Phase::kFinal, rank - 1, all);
    return schedule;
  }
  if (self.has_pair) add_receive(schedule, Phase::kPartial, rank + 1, all);
  for (std::uint32_t distance = self.p / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = self.number ^ distance;
    add_send(schedule, Phase::kPartial, self.rank_of(other), self.block(count, distance, other));
    add_receive(schedule, Phase::kPartial, self.rank_of(other),
                self.block(count, distance, self.number));
  }
  for (std::uint32_t distance = 1; distance < self.p; distance *= 2) {
    const std::uint32_t other = self.number ^ distance;
    add_send(schedule, Phase::kFinal, self.rank_of(other),
             self.block(count, distance, self.number));
    add_receive(schedule, Phase::kFinal, self.rank_of(other), self.block(count, distance, other));
  }
  if (self.has_pair) add_send(schedule, Phase::kFinal, rank + 1, all);
  return schedule;
}

Cost halving_cost(const RankPlace& place, std::uint64_t count, std::uint64_t chunk) {
  const Halving self(place);
  Cost cost;
  cost.steps =
      2 * static_cast<std::uint64_t>(std::bit_width(self.p) - 1) + (self.pairs > 0 ? 2 : 0);
  const auto add = [&](std::uint64_t elements) {
    cost.messages += chunks_of(elements, chunk);
    cost.bytes += elements * sizeof(float);
  };
  if (self.has_pair) add(count);
  if (self.is_extra) return cost;
  // Halving sends all but the part that stays; doubling sends the block around it, of each size.
  for (std::uint32_t size = 1; size < self.p; size *= 2) {
    add(self.block(count, size, self.number ^ size).size());
    add(self.block(count, size, self.number).size());
  }
  return cost;
}

}  // namespace taut::collective
