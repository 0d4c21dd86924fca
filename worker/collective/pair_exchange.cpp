// Exchanges of two ranks of a group: one sends its values, the other answers with its own.
#include <fmt/format.h>

#include <utility>

#include "common/check.hpp"
#include "worker/collective/algorithms.hpp"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::collective {
namespace {

// The SumId of an exchange of two: this bit, the rank that began it, and that rank's count.
constexpr AllReduceGroup::SumId kPair = 1ULL << 63U;
constexpr unsigned kRankBits = 40;
constexpr AllReduceGroup::SumId kRanks = (1ULL << 23U) - 1;

Rank beginner_of(AllReduceGroup::SumId pair) {
  return Rank(static_cast<std::uint32_t>(pair >> kRankBits & kRanks));
}

}  // namespace

bool AllReduceGroup::is_pair(SumId sum) {
  return (sum & kPair) != 0;
}

Result<AllReduceGroup::SumId> AllReduceGroup::begin_pair(Rank with, const Buffer& values) {
  if (failed_) return *failed_;
  const Range whole{0, options_.pair_elements};
  TAUT_CHECK(values.size() == 2 * whole.size() * sizeof(float), "values of another size");
  Schedule schedule;
  add_send(schedule, Phase::kFinal, with.value(), whole);
  add_receive(schedule, Phase::kFinal, with.value(), whole);
  schedule.back().shift = whole.size();
  const SumId pair = kPair | SumId{options_.rank.value()} << kRankBits | ++pairs_;
  AllReduce& one = sums_.try_emplace(pair, schedule, values, chunk_, whole.size()).first->second;
  send(pair, one.start(options_.time->now()));
  return pair;
}

/// A chunk of a request: its first one, or a later one.
Result<void> AllReduceGroup::receive_pair(SumId pair, Rank from, const Chunk& chunk) {
  if (sums_.contains(pair)) return apply(pair, from, chunk);
  if (beginner_of(pair) != from || options_.pair_elements == 0 ||
      chunk.total != options_.pair_elements) {
    return fail(make_error(ErrorCode::kMismatch,
                           fmt::format("{} began an exchange of {} elements, and this rank answers "
                                       "with {}",
                                       name_of(from), chunk.total, options_.pair_elements)));
  }
  if (!receivers_.contains(from)) {
    return fail(
        invalid(fmt::format("{} began an exchange of two, and this rank is not connected "
                            "to it to answer",
                            name_of(from))));
  }
  SumId& newest = newest_pair_[from];
  if (pair <= newest) return ok();  // a duplicate: it is complete
  if (requests_.contains(from)) {
    return fail(
        invalid(fmt::format("{} began another exchange before it had an answer", name_of(from))));
  }
  newest = pair;
  const Range whole{0, options_.pair_elements};
  Request& request = requests_[from];
  request = {from, pair, options_.acquire(whole.size() * sizeof(float))};
  Schedule schedule;
  add_receive(schedule, Phase::kFinal, from.value(), whole);
  AllReduce& one =
      sums_.try_emplace(pair, schedule, request.values, chunk_, whole.size()).first->second;
  static_cast<void>(one.start(options_.time->now()));
  return apply(pair, from, chunk);
}

std::optional<AllReduceGroup::Request> AllReduceGroup::take_request() {
  for (auto it = requests_.begin(); it != requests_.end(); ++it) {
    if (sums_.contains(it->second.pair)) continue;
    Request request = std::move(it->second);
    requests_.erase(it);
    return request;
  }
  return std::nullopt;
}

void AllReduceGroup::answer(const Request& request, const Buffer& values) {
  const Range whole{0, options_.pair_elements};
  TAUT_CHECK(values.size() == whole.size() * sizeof(float), "values of another size");
  Schedule schedule;
  add_send(schedule, Phase::kFinal, request.from.value(), whole);
  AllReduce one(schedule, values, chunk_, whole.size());
  send(request.pair, one.start(options_.time->now()));
}

}  // namespace taut::collective
