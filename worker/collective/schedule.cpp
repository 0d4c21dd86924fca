#include "worker/collective/schedule.hpp"

#include "common/check.hpp"
#include "worker/collective/algorithms.hpp"

namespace taut::collective {

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "RING";
    case Algorithm::kHalving:
      return "HALVING";
    case Algorithm::kDoubleTree:
      return "DOUBLE_TREE";
    case Algorithm::kHierarchical:
      return "HIERARCHICAL";
  }
  TAUT_CHECK(false, "an algorithm that has no name");
}

Schedule make_schedule(Algorithm algorithm, const RankPlace& place, std::uint64_t count) {
  TAUT_CHECK(place.rank.value() < place.ranks(), "a rank outside of its group");
  switch (algorithm) {
    case Algorithm::kRing:
      return ring_schedule(place, count);
    case Algorithm::kHalving:
      return halving_schedule(place, count);
    case Algorithm::kDoubleTree:
      return double_tree_schedule(place, count);
    case Algorithm::kHierarchical:
      return hierarchical_schedule(place, count);
  }
  TAUT_CHECK(false, "an algorithm that has no schedule");
}

Cost cost_of(Algorithm algorithm, const RankPlace& place, std::uint64_t count,
             std::uint64_t chunk) {
  switch (algorithm) {
    case Algorithm::kRing:
      return ring_cost(place, count, chunk);
    case Algorithm::kHalving:
      return halving_cost(place, count, chunk);
    case Algorithm::kDoubleTree:
      return double_tree_cost(place, count, chunk);
    case Algorithm::kHierarchical:
      return hierarchical_cost(place, count, chunk);
  }
  TAUT_CHECK(false, "an algorithm that has no formula");
}

void add_send(Schedule& schedule, Phase phase, std::uint32_t to, Range range) {
  if (range.empty()) return;
  schedule.push_back({.is_send = true, .phase = phase, .peer = Rank(to), .range = range});
}

void add_receive(Schedule& schedule, Phase phase, std::uint32_t from, Range range) {
  if (range.empty()) return;
  schedule.push_back({.is_send = false, .phase = phase, .peer = Rank(from), .range = range});
}

}  // namespace taut::collective
