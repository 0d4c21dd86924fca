#include "worker/engine/plan/bound.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "worker/engine/plan/choice.hpp"

namespace taut::plan {
namespace {

/// The relaxed problem at one set of prices: its optimum, and each step's excess over its room.
class Relaxed {
 public:
  explicit Relaxed(const Problem& problem) : problem_(problem), room_(problem.steps, 0.0) {
    // Room beyond what all carries together need has no price, and would cost the sums precision.
    std::vector<double> most = usage(std::vector<bool>(problem.carries.size(), true));
    for (std::size_t step = 0; step < problem.steps; ++step) {
      room_[step] = std::min(static_cast<double>(problem.room[step]), most[step]);
    }
  }

  double solve(const std::vector<double>& prices) {
    const std::vector<double> costs = keep_costs(problem_, prices);
    std::vector<bool> kept(problem_.carries.size(), true);
    double optimum = 0;
    for (const Value& value : problem_.values) optimum += settle(value, costs, kept);
    excess_ = usage(kept);
    for (std::size_t step = 0; step < problem_.steps; ++step) {
      optimum -= prices[step] * room_[step];
      excess_[step] -= room_[step];
    }
    return optimum;
  }

  [[nodiscard]] const std::vector<double>& excess() const { return excess_; }

 private:
  /// Keeps all carries of a value, or pays its write-back and drops those that cost more room than
  /// a fetch.
  double settle(const Value& value, const std::vector<double>& costs,
                std::vector<bool>& kept) const {
    if (value.carries.empty()) return 0;
    const std::size_t buffer = problem_.carries[value.carries.front()].buffer;
    const auto bytes = static_cast<double>(problem_.bytes[buffer]);
    double keep_all = 0;
    double swap = value.dirty ? bytes : 0;
    for (const std::size_t carry : value.carries) {
      keep_all += costs[carry];
      swap += std::min(costs[carry], problem_.carries[carry].fetches ? bytes : 0);
    }
    if (keep_all <= swap) return keep_all;
    for (const std::size_t carry : value.carries) {
      kept[carry] = costs[carry] <= (problem_.carries[carry].fetches ? bytes : 0);
    }
    return swap;
  }

  [[nodiscard]] std::vector<double> usage(const std::vector<bool>& kept) const {
    std::vector<double> change(2 * problem_.steps + 1, 0.0);
    for (std::size_t carry = 0; carry < kept.size(); ++carry) {
      const Carry& one = problem_.carries[carry];
      if (!kept[carry] || one.hold_steps() == 0) continue;
      const auto bytes = static_cast<double>(problem_.place_bytes[one.buffer]);
      change[one.hold_from] += bytes;
      change[one.hold_to] -= bytes;
    }
    std::vector<double> used(problem_.steps, 0.0);
    double now = 0;
    for (std::size_t step = 0; step < 2 * problem_.steps; ++step) {
      now += change[step];
      used[step % problem_.steps] += now;
    }
    return used;
  }

  const Problem& problem_;
  std::vector<double> room_;
  std::vector<double> excess_;
};

/// Prices only the best one of the steps with the largest excess, since a net's peak alone often
/// determines the bound.
void start_at_one_step(const Problem& problem, Relaxed& relaxed, std::vector<double>& prices) {
  constexpr std::size_t kMaxSteps = 64;
  double best = relaxed.solve(prices);
  const std::vector<double> excess = relaxed.excess();
  std::vector<std::size_t> steps(problem.steps);
  std::iota(steps.begin(), steps.end(), std::size_t{0});
  std::ranges::stable_sort(steps,
                           [&](std::size_t a, std::size_t b) { return excess[a] > excess[b]; });
  steps.resize(std::min(steps.size(), kMaxSteps));
  std::vector<double> trial(problem.steps, 0.0);
  for (const std::size_t step : steps) {
    for (const double price : {1.0, 2.0}) {  // of a fetch, and of a write-back with it
      trial[step] = price;
      const double dual = relaxed.solve(trial);
      if (dual > best) prices = trial;
      best = std::max(best, dual);
    }
    trial[step] = 0;
  }
}

/// Improves prices along subgradients until nothing does. Returns the dual at the best ones.
double climb(const Problem& problem, Relaxed& relaxed, double aim,
             std::vector<double>& best_prices) {
  constexpr int kRounds = 400;
  std::vector<double> prices = best_prices;
  double best = 0;
  double stride = 1.0;
  int idle = 0;
  for (int round = 0; round < kRounds && best < aim; ++round) {
    const double dual = relaxed.solve(prices);
    if (dual > best) {
      best = dual;
      best_prices = prices;
      idle = 0;
    } else if (++idle == 15) {
      stride /= 2;
      idle = 0;
      prices = best_prices;
      continue;
    }
    double norm = 0;
    for (std::size_t step = 0; step < problem.steps; ++step) {
      const double excess = relaxed.excess()[step];
      if (prices[step] > 0 || excess > 0) norm += excess * excess;
    }
    if (norm == 0) break;
    const double length = stride * (aim - dual) / norm;
    for (std::size_t step = 0; step < problem.steps; ++step) {
      prices[step] = std::max(0.0, prices[step] + length * relaxed.excess()[step]);
    }
  }
  return best;
}

}  // namespace

std::vector<double> keep_costs(const Problem& problem, const std::vector<double>& prices) {
  std::vector<double> sum(2 * problem.steps + 1, 0.0);
  for (std::size_t step = 0; step < 2 * problem.steps; ++step) {
    sum[step + 1] = sum[step] + prices[step % problem.steps];
  }
  std::vector<double> costs;
  for (const Carry& carry : problem.carries) {
    const double price = carry.hold_steps() == 0 ? 0.0 : sum[carry.hold_to] - sum[carry.hold_from];
    costs.push_back(price * static_cast<double>(problem.place_bytes[carry.buffer]));
  }
  return costs;
}

DualBound dual_bound(const Problem& problem, std::uint64_t moved_bytes) {
  Relaxed relaxed(problem);
  const auto aim = static_cast<double>(moved_bytes);
  std::vector<double> prices(problem.steps, 0.0);
  double best = climb(problem, relaxed, aim, prices);
  std::vector<double> other(problem.steps, 0.0);
  start_at_one_step(problem, relaxed, other);
  const double from_one = climb(problem, relaxed, aim, other);
  if (from_one > best) {
    best = from_one;
    prices = std::move(other);
  }
  const double safe = std::max(0.0, best * (1 - 1e-9) - 1e-6);  // rounding must not raise a bound
  return {static_cast<std::uint64_t>(std::ceil(safe)), std::move(prices)};
}

}  // namespace taut::plan
