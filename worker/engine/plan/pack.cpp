#include "worker/engine/plan/pack.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "common/check.hpp"

namespace taut::plan {
namespace {

// Steps of compute that a copy may overlap where memory is free: one step may be far shorter than a
// copy.
constexpr std::size_t kMaxHidden = 16;
// With more stays than this a copy gets only one step, since every pair of stays is compared.
constexpr std::size_t kManyStays = 2000;

bool has_reserve(const Stay& stay) {
  const Residency& at = stay.residency;
  return !stay.permanent && (at.begin < at.first_use || at.end > at.last_use + 1);
}

void trim(Stay& stay, std::size_t steps) {
  Residency& at = stay.residency;
  at.begin = at.first_use;
  at.end = at.last_use + 1;
  if (at.begin < steps) return;
  for (std::size_t* step : {&at.begin, &at.first_use, &at.last_use, &at.end}) *step -= steps;
  if (at.written >= steps) at.written -= steps;
  at.holds_across_end = at.last_use >= steps;
}

/// Renumbers the steps of a stay from one iteration earlier.
void shift(Residency& at, std::size_t steps) {
  for (std::size_t* step : {&at.begin, &at.first_use, &at.last_use, &at.written, &at.end}) {
    *step += steps;
  }
  at.holds_across_end = at.last_use >= steps;
}

/// Places stays one by one; stays that fit nowhere are made smaller until they do.
class Packer {
 public:
  Packer(const Problem& problem, const Choice& choice) : problem_(problem), choice_(choice) {}

  Packing run(std::vector<Stay> stays) {
    pending_ = std::move(stays);
    std::ranges::reverse(pending_);
    while (!pending_.empty()) {
      Stay stay = pending_.back();
      pending_.pop_back();
      if (!place(stay)) make_room(stay);
    }
    return {std::move(placed_), choice_.moved_bytes(), splits_, trims_};
  }

 private:
  [[nodiscard]] bool meets(const Stay& a, const Stay& b) const {
    return meet(a.residency, b.residency, problem_.steps);
  }

  bool place(Stay& stay) {
    std::uint64_t offset = 0;
    for (const Stay& other : placed_) {
      if (!meets(stay, other)) continue;
      if (other.offset() >= offset && other.offset() - offset >= stay.place_bytes) break;
      offset = std::max(offset, other.top());
    }
    if (offset > problem_.budget || problem_.budget - offset < stay.place_bytes) return false;
    stay.residency.offset = Bytes(offset);
    const auto before = std::ranges::upper_bound(placed_, offset, {}, &Stay::offset);
    placed_.insert(before, stay);
    return true;
  }

  void make_room(Stay stay) {
    if (has_reserve(stay)) {
      ++trims_;
      trim(stay, problem_.steps);
      pending_.push_back(stay);
    } else if (const auto link = weakest_link(stay, nullptr)) {
      split(stay, *link);
    } else if (!shrink_neighbour(stay)) {
      stack_step(stay);
    }
  }

  /// The carry within a stay that gains least per step; one across `step` is preferred.
  [[nodiscard]] std::optional<std::size_t> weakest_link(const Stay& stay,
                                                        const std::size_t* step) const {
    const auto& uses = problem_.uses[stay.residency.buffer];
    std::optional<std::size_t> weakest;
    std::pair<bool, double> least;
    for (std::size_t i = 0; i < (stay.permanent ? stay.uses : stay.uses - 1); ++i) {
      const std::size_t number = uses[(stay.first + i) % uses.size()].carry;
      const Carry& carry = problem_.carries[number];
      const bool across =
          step != nullptr && (crosses(carry, *step) || crosses(carry, *step + problem_.steps));
      const double density =
          static_cast<double>(choice_.gain(number)) / (static_cast<double>(carry.to - carry.from));
      const std::pair<bool, double> rank(!across, density);
      if (!weakest || rank < least) {
        weakest = number;
        least = rank;
      }
    }
    return weakest;
  }

  static bool crosses(const Carry& carry, std::size_t step) {
    return carry.from < step && step < carry.to;
  }

  /// Drops a carry within a stay; its two parts become pending.
  void split(const Stay& stay, std::size_t carry) {
    ++splits_;
    choice_.drop(carry);
    const std::size_t buffer = stay.residency.buffer;
    const auto& uses = problem_.uses[buffer];
    std::size_t count = 1;  // up to the dropped carry
    while (uses[(stay.first + count - 1) % uses.size()].carry != carry) ++count;
    const std::size_t second = (stay.first + count) % uses.size();
    if (stay.permanent) {
      pending_.push_back(make_stay(problem_, choice_, buffer, second, stay.uses));
      return;
    }
    pending_.push_back(make_stay(problem_, choice_, buffer, second, stay.uses - count));
    pending_.push_back(make_stay(problem_, choice_, buffer, stay.first, count));
  }

  /// Makes a placed stay smaller that is in the way of one that cannot shrink itself.
  bool shrink_neighbour(Stay& stay) {
    const std::size_t step = stay.residency.first_use % problem_.steps;
    std::size_t victim = kNone;
    std::pair<bool, double> least;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (!meets(stay, placed_[i])) continue;
      const bool reserve = has_reserve(placed_[i]);
      const auto link = weakest_link(placed_[i], &step);
      if (!reserve && !link) continue;
      const double loss = reserve ? 0.0 : static_cast<double>(choice_.gain(*link));
      const std::pair<bool, double> rank(!reserve, loss);
      if (victim == kNone || rank < least) {
        victim = i;
        least = rank;
      }
    }
    if (victim == kNone) return false;
    Stay other = placed_[victim];
    placed_.erase(placed_.begin() + static_cast<std::ptrdiff_t>(victim));
    if (has_reserve(other)) {
      ++trims_;
      trim(other, problem_.steps);
      pending_.push_back(other);
    } else {
      split(other, *weakest_link(other, &step));
    }
    pending_.push_back(stay);
    return true;
  }

  /// If only single uses of this step are left, they fit one above the other, from the bottom.
  void stack_step(Stay stay) {
    std::vector<Stay> row;
    for (const Stay& other : placed_) {
      if (meets(stay, other)) row.push_back(other);
    }
    std::erase_if(placed_, [&](const Stay& other) { return meets(stay, other); });
    row.push_back(stay);
    for (Stay& one : row) TAUT_CHECK(place(one), "the uses of one step exceed the budget");
  }

  const Problem& problem_;
  Choice choice_;
  std::vector<Stay> placed_;   // by rising offset
  std::vector<Stay> pending_;  // the next one last
  std::size_t splits_ = 0;
  std::size_t trims_ = 0;
};

using Order = std::function<bool(const Stay&, const Stay&)>;

std::size_t length(const Stay& stay) {
  return stay.residency.end - stay.residency.begin;
}

std::vector<Order> orders() {
  const auto key = [](auto of) {
    return [of](const Stay& a, const Stay& b) {
      return std::pair(!a.permanent, of(a)) < std::pair(!b.permanent, of(b));
    };
  };
  return {key([](const Stay& stay) { return std::pair(~stay.place_bytes, ~length(stay)); }),
          key([](const Stay& stay) { return std::pair(~length(stay), ~stay.place_bytes); }),
          key([](const Stay& stay) { return std::pair(stay.residency.begin, ~stay.place_bytes); })};
}

}  // namespace

Packing pack(const Problem& problem, const Choice& choice) {
  std::optional<Packing> best;
  const std::vector<Stay> stays = stays_of(problem, choice);
  for (const Order& order : orders()) {
    std::vector<Stay> ordered = stays;
    std::ranges::stable_sort(ordered, order);
    Packing packing = Packer(problem, choice).run(std::move(ordered));
    const auto rank = [](const Packing& one) { return std::pair(one.moved_bytes, one.trims); };
    if (!best || rank(packing) < rank(*best)) best = std::move(packing);
    if (best->splits + best->trims == 0) break;
  }
  return std::move(*best);
}

std::size_t hide_copies(const Problem& problem, std::vector<Stay>& stays) {
  std::size_t lengthened = 0;
  const auto is_free = [&](const Stay& stay, Residency longer) {
    return std::ranges::none_of(stays, [&](const Stay& other) {
      if (&other == &stay || !meet(longer, other.residency, problem.steps)) return false;
      const bool same_bytes = stay.offset() < other.top() && other.offset() < stay.top();
      return same_bytes || other.residency.buffer == stay.residency.buffer;
    });
  };
  const auto take = [&](Stay& stay, const Residency& longer) {
    if (longer.end - longer.begin > problem.steps || !is_free(stay, longer)) return false;
    stay.residency = longer;
    ++lengthened;
    return true;
  };
  // By one step each in turn, so that no copy takes memory that many could share.
  std::vector<Stay*> fetched;
  std::vector<Stay*> written;
  for (Stay& stay : stays) {
    if (stay.residency.fetched) fetched.push_back(&stay);
    if (stay.residency.written_back) written.push_back(&stay);
  }
  const std::size_t most = stays.size() > kManyStays ? 1 : kMaxHidden;
  for (std::size_t hidden = 1; hidden <= most; ++hidden) {
    std::erase_if(fetched, [&](Stay* stay) {
      if (stay->residency.first_use - stay->residency.begin >= hidden) return false;
      Residency longer = stay->residency;
      if (longer.begin == 0) shift(longer, problem.steps);
      --longer.begin;
      return !take(*stay, longer);
    });
    std::erase_if(written, [&](Stay* stay) {
      if (stay->residency.end - stay->residency.written > hidden) return false;
      Residency longer = stay->residency;
      ++longer.end;
      return !take(*stay, longer);
    });
  }
  return lengthened;
}

}  // namespace taut::plan
