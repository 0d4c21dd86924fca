#include "worker/engine/plan/choice.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "worker/engine/plan/bound.hpp"

namespace taut::plan {
namespace {

/// Whether the predicate is true for each step that a carry holds; stops at the first that fails.
template <class Predicate>
bool all_steps(const Problem& problem, const Carry& carry, Predicate predicate) {
  std::size_t at = carry.hold_from % problem.steps;
  for (std::size_t count = carry.hold_steps(); count > 0; --count) {
    if (!predicate(at)) return false;
    if (++at == problem.steps) at = 0;
  }
  return true;
}

}  // namespace

Choice::Choice(const Problem& problem)
    : problem_(&problem),
      kept_(problem.carries.size(), false),
      dropped_of_value_(problem.values.size()) {
  constexpr auto kMaxRoom =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 4);
  for (const std::uint64_t room : problem.room) {
    left_.push_back(static_cast<std::int64_t>(std::min(room, kMaxRoom)));
  }
  for (const Carry& carry : problem.carries) {
    const std::uint64_t bytes = problem.bytes[carry.buffer];
    if (carry.fetches) moved_bytes_ += bytes;
    const bool first = dropped_of_value_[carry.value]++ == 0;
    if (first && problem.values[carry.value].dirty) moved_bytes_ += bytes;
  }
}

bool Choice::fits(std::size_t carry) const {
  const Carry& one = problem_->carries[carry];
  const auto bytes = static_cast<std::int64_t>(problem_->place_bytes[one.buffer]);
  return all_steps(*problem_, one, [&](std::size_t step) { return left_[step] >= bytes; });
}

std::uint64_t Choice::gain(std::size_t carry) const {
  const Carry& one = problem_->carries[carry];
  const std::size_t others = dropped_of_value_[one.value] - (kept_[carry] ? 0 : 1);
  const bool saves_write = problem_->values[one.value].dirty && others == 0;
  return problem_->bytes[one.buffer] * ((one.fetches ? 1U : 0U) + (saves_write ? 1U : 0U));
}

void Choice::take(std::size_t carry, std::int64_t sign) {
  const Carry& one = problem_->carries[carry];
  const auto bytes = sign * static_cast<std::int64_t>(problem_->place_bytes[one.buffer]);
  all_steps(*problem_, one, [&](std::size_t step) {
    left_[step] -= bytes;
    return true;
  });
}

void Choice::keep(std::size_t carry) {
  if (kept_[carry]) return;
  moved_bytes_ -= gain(carry);
  --dropped_of_value_[problem_->carries[carry].value];
  kept_[carry] = true;
  take(carry, 1);
}

void Choice::drop(std::size_t carry) {
  if (!kept_[carry]) return;
  moved_bytes_ += gain(carry);
  ++dropped_of_value_[problem_->carries[carry].value];
  kept_[carry] = false;
  take(carry, -1);
}

namespace {

bool holds(const Problem& problem, std::size_t carry, std::size_t step) {
  const Carry& one = problem.carries[carry];
  return (step + 2 * problem.steps - one.hold_from) % problem.steps < one.hold_steps();
}

/// Carries in falling order of a score.
std::vector<std::size_t> ranked(const std::vector<double>& score) {
  std::vector<std::size_t> order(score.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
  return order;
}

void fill(Choice& choice, const std::vector<std::size_t>& order) {
  for (const std::size_t carry : order) {
    if (!choice.kept(carry) && choice.fits(carry)) choice.keep(carry);
  }
}

/// Carries by bytes saved per byte of room and step: short carries first.
std::vector<std::size_t> by_density(const Problem& problem, const Choice& choice) {
  std::vector<double> score;
  for (std::size_t carry = 0; carry < problem.carries.size(); ++carry) {
    const Carry& one = problem.carries[carry];
    const auto held = static_cast<double>(one.hold_steps()) *
                      static_cast<double>(problem.place_bytes[one.buffer]);
    score.push_back(static_cast<double>(choice.gain(carry)) / (held + 1e-9));
  }
  return ranked(score);
}

std::vector<std::size_t> by_prices(const Problem& problem, const Choice& choice,
                                   const std::vector<double>& prices) {
  const std::vector<double> costs = keep_costs(problem, prices);
  std::vector<double> score;
  for (std::size_t carry = 0; carry < costs.size(); ++carry) {
    score.push_back(static_cast<double>(choice.gain(carry)) / (costs[carry] + 1e-9));
  }
  return ranked(score);
}

/// Keeps a dropped carry at the cost of others: in each step that is then over its room, drops the
/// one that saves least per step that it holds. Accepts the swap if it moves fewer bytes.
class Exchange {
 public:
  Exchange(const Problem& problem, Choice& best)
      : problem_(problem), best_(best), by_gain_(by_density(problem, Choice(problem))) {}

  void run() {
    bool better = true;
    while (better) {
      better = false;
      for (const std::size_t carry : by_gain_) {
        if (work_ > kMaxWork) return;
        if (!best_.kept(carry)) better |= enforce(carry);
      }
    }
  }

 private:
  static constexpr std::size_t kMaxWork = 2'000'000;  // carries visited

  bool enforce(std::size_t carry) {
    Choice now = best_;
    now.keep(carry);
    bool possible = true;
    all_steps(problem_, problem_.carries[carry], [&](std::size_t step) {
      while (possible && now.left(step) < 0) possible = drop_one(now, step, carry);
      return possible;
    });
    if (!possible) return false;
    work_ += by_gain_.size() + problem_.steps;
    fill(now, by_gain_);
    if (now.moved_bytes() >= best_.moved_bytes()) return false;
    best_ = std::move(now);
    return true;
  }

  bool drop_one(Choice& now, std::size_t step, std::size_t except) {
    std::size_t weakest = kNone;
    double least = 0;
    work_ += by_gain_.size();
    for (const std::size_t carry : by_gain_) {
      if (carry == except || !now.kept(carry) || !holds(problem_, carry, step)) continue;
      const auto steps = static_cast<double>(problem_.carries[carry].hold_steps());
      const double density = static_cast<double>(now.gain(carry)) / steps;
      if (weakest != kNone && density >= least) continue;
      weakest = carry;
      least = density;
    }
    if (weakest == kNone) return false;
    now.drop(weakest);
    return true;
  }

  const Problem& problem_;
  Choice& best_;
  std::vector<std::size_t> by_gain_;
  std::size_t work_ = 0;
};

/// Depth-first search over the carries that compete, largest savings first.
class Search {
 public:
  Search(const Problem& problem, Choice& best) : best_(best), now_(problem) {
    std::vector<double> score;
    for (std::size_t carry = 0; carry < problem.carries.size(); ++carry) {
      if (problem.carries[carry].hold_steps() == 0) now_.keep(carry);
      score.push_back(static_cast<double>(now_.gain(carry)));
    }
    for (const std::size_t carry : ranked(score)) {
      if (problem.carries[carry].hold_steps() > 0) competing_.push_back(carry);
    }
    // Start with all kept, so that the bytes dropped on the way down are a lower bound.
    for (const std::size_t carry : competing_) now_.keep(carry);
    problem_ = &problem;
  }

  void run() {
    if (competing_.size() <= kMaxCarries) visit(0);
  }

 private:
  static constexpr std::size_t kMaxCarries = 40;
  static constexpr std::size_t kMaxWork = 5'000'000;  // steps visited

  [[nodiscard]] bool over(std::size_t carry) const {
    return !all_steps(*problem_, problem_->carries[carry],
                      [&](std::size_t step) { return now_.left(step) >= 0; });
  }

  void visit(std::size_t depth) {
    if (work_ > kMaxWork || now_.moved_bytes() >= best_.moved_bytes()) return;
    work_ += problem_->steps;
    while (depth < competing_.size() && !over(competing_[depth])) ++depth;
    if (depth == competing_.size()) {
      best_ = now_;
      return;
    }
    const std::size_t carry = competing_[depth];
    if (kept_fit(depth)) visit(depth + 1);
    now_.drop(carry);
    visit(depth + 1);
    now_.keep(carry);
  }

  /// Whether the carries decided as kept fit without the undecided ones.
  [[nodiscard]] bool kept_fit(std::size_t depth) {
    const Carry& one = problem_->carries[competing_[depth]];
    return all_steps(*problem_, one, [&](std::size_t at) {
      work_ += competing_.size() - depth;
      std::int64_t left = now_.left(at);
      for (std::size_t open = depth + 1; open < competing_.size(); ++open) {
        if (now_.kept(competing_[open]) && holds(*problem_, competing_[open], at)) {
          const Carry& other = problem_->carries[competing_[open]];
          left += static_cast<std::int64_t>(problem_->place_bytes[other.buffer]);
        }
      }
      return left >= 0;
    });
  }

  const Problem* problem_ = nullptr;
  Choice& best_;
  Choice now_;
  std::vector<std::size_t> competing_;
  std::size_t work_ = 0;
};

/// Carries that hold a step, in the order of a walk through the cycle.
class Holders {
 public:
  explicit Holders(const Problem& problem) : problem_(problem), starts_(problem.steps) {
    for (std::size_t carry = 0; carry < problem.carries.size(); ++carry) {
      const Carry& one = problem.carries[carry];
      if (one.hold_steps() == 0) continue;
      starts_[one.hold_from % problem.steps].push_back(carry);
      const bool before_start = one.hold_from < problem.steps && one.hold_to > problem.steps;
      if (before_start)
        active_.push_back({carry, one.to - problem.steps, one.hold_to - problem.steps});
    }
  }

  struct Holder {
    std::size_t carry;
    std::size_t next_use;
    std::size_t hold_end;
  };

  std::vector<Holder>& at(std::size_t step) {
    std::erase_if(active_, [&](const Holder& holder) { return holder.hold_end <= step; });
    for (const std::size_t carry : starts_[step]) {
      const Carry& one = problem_.carries[carry];
      const std::size_t lap = one.hold_from >= problem_.steps ? problem_.steps : 0;
      active_.push_back({carry, one.to - lap, one.hold_to - lap});
    }
    return active_;
  }

 private:
  const Problem& problem_;
  std::vector<std::vector<std::size_t>> starts_;
  std::vector<Holder> active_;
};

}  // namespace

Choice choose_by_next_use(const Problem& problem) {
  Choice choice(problem);
  const std::vector<std::size_t> order = by_density(problem, choice);
  for (const std::size_t carry : order) choice.keep(carry);
  Holders holders(problem);
  for (std::size_t step = 0; step < problem.steps; ++step) {
    auto& active = holders.at(step);
    const auto score = [&](const Holders::Holder& holder) {
      const std::size_t buffer = problem.carries[holder.carry].buffer;
      return static_cast<double>(holder.next_use - step) *
             static_cast<double>(problem.place_bytes[buffer]) /
             (static_cast<double>(choice.gain(holder.carry)) + 1e-9);
    };
    std::erase_if(active, [&](const auto& holder) { return !choice.kept(holder.carry); });
    while (choice.left(step) < 0) {
      const auto furthest = std::ranges::max_element(active, {}, score);
      choice.drop(furthest->carry);
      *furthest = active.back();
      active.pop_back();
    }
  }
  fill(choice, order);
  return choice;
}

std::vector<Choice> choose(const Problem& problem) {
  std::vector<Choice> found = {choose_by_next_use(problem)};
  if (found.front().moved_bytes() == 0) return found;
  const Choice none(problem);
  const auto add = [&](const std::vector<std::size_t>& order) {
    found.push_back(none);
    fill(found.back(), order);
  };
  add(by_density(problem, none));
  const DualBound bound = dual_bound(problem, found.front().moved_bytes());
  add(by_prices(problem, none, bound.prices));
  std::ranges::stable_sort(found, {}, &Choice::moved_bytes);
  if (found.front().moved_bytes() <= bound.bytes) return found;
  // For a large trace an answer within a second is preferred to a better one.
  constexpr std::size_t kFew = 1000;
  const std::size_t mended = problem.carries.size() <= kFew ? found.size() : 1;
  for (std::size_t i = 0; i < mended; ++i) {
    found.push_back(found[i]);
    Exchange(problem, found.back()).run();
  }
  Choice best = *std::ranges::min_element(found, {}, &Choice::moved_bytes);
  Search(problem, best).run();
  found.push_back(std::move(best));
  std::ranges::stable_sort(found, {}, &Choice::moved_bytes);
  return found;
}

}  // namespace taut::plan
