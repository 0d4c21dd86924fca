#include <numeric>

#include "worker/collective/algorithms.hpp"

namespace taut::collective {
namespace {

/// Messages of all parts.
std::uint64_t chunks_of_parts(Range range, std::uint64_t parts, std::uint64_t chunk) {
  const std::uint64_t larger = range.size() % parts;
  return larger * chunks_of(range.size() / parts + 1, chunk) +
         (parts - larger) * chunks_of(range.size() / parts, chunk);
}

}  // namespace

void add_ring(Schedule& schedule, const std::vector<std::uint32_t>& ring, std::uint64_t place,
              Range range) {
  const std::uint64_t n = ring.size();
  if (n < 2) return;
  const std::uint32_t next = ring[(place + 1) % n];
  const std::uint32_t previous = ring[(place + n - 1) % n];
  const auto part = [&](std::uint64_t number) { return part_of(range, n, number % n); };
  // Part x starts at rank x; rank x - 1 is the last to add to it.
  for (std::uint64_t step = 0; step + 1 < n; ++step) {
    add_send(schedule, Phase::kPartial, next, part(place + n - step));
    add_receive(schedule, Phase::kPartial, previous, part(place + 2 * n - step - 1));
  }
  for (std::uint64_t step = 0; step + 1 < n; ++step) {
    add_send(schedule, Phase::kFinal, next, part(place + 1 + n - step));
    add_receive(schedule, Phase::kFinal, previous, part(place + n - step));
  }
}

Cost cost_of_ring(std::uint64_t ranks, std::uint64_t place, Range range, std::uint64_t chunk) {
  if (ranks < 2) return {};
  // Not sent: the part whose sum is complete here, and, once it is complete, that of the next rank.
  const Range own = part_of(range, ranks, (place + 1) % ranks);
  const Range next = part_of(range, ranks, (place + 2) % ranks);
  return {.steps = 2 * (ranks - 1),
          .messages = 2 * chunks_of_parts(range, ranks, chunk) - chunks_of(own.size(), chunk) -
                      chunks_of(next.size(), chunk),
          .bytes = (2 * range.size() - own.size() - next.size()) * sizeof(float)};
}

Schedule ring_schedule(const RankPlace& place, std::uint64_t count) {
  std::vector<std::uint32_t> ring(place.ranks());
  std::iota(ring.begin(), ring.end(), 0U);
  Schedule schedule;
  add_ring(schedule, ring, place.rank.value(), {0, count});
  return schedule;
}

Cost ring_cost(const RankPlace& place, std::uint64_t count, std::uint64_t chunk) {
  return cost_of_ring(place.ranks(), place.rank.value(), {0, count}, chunk);
}

}  // namespace taut::collective
