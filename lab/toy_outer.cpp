#include "lab/toy_outer.hpp"

#include <algorithm>
#include <cmath>

namespace taut::sim {
namespace {

using States = std::map<std::string_view, std::vector<float>>;

std::vector<float>& state(States& states, std::string_view name, std::size_t count) {
  std::vector<float>& one = states[name];
  one.resize(count, 0.0F);
  return one;
}

/// v = momentum v + lr g; the values are `ahead` of where v alone has brought them.
/// Source    Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated
///           Visual Classification", 2019, section 4.3 (ahead 0); Douillard et al., "DiLoCo", 2023,
///           section 2 (Nesterov's, ahead as the momentum)
void step_by_momentum(const pb::OuterOptimizer& outer, float ahead, std::span<const float> gradient,
                      std::span<float> values, States& states) {
  std::vector<float>& velocity = state(states, "velocity", values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float before = velocity[i];
    velocity[i] = outer.momentum() * before + outer.lr() * gradient[i];
    values[i] -= (1 + ahead) * velocity[i] - ahead * before;
  }
}

/// Source    Reddi et al., "Adaptive Federated Optimization", ICLR 2021, algorithm 2 (FedAdam),
///           with Adam's correction of bias
void step_by_adam(const pb::OuterOptimizer& outer, std::int64_t steps,
                  std::span<const float> gradient, std::span<float> values, States& states) {
  std::vector<float>& first = state(states, "first", values.size());
  std::vector<float>& second = state(states, "second", values.size());
  const auto t = static_cast<double>(steps + 1);
  const auto correction = static_cast<float>(std::sqrt(1 - std::pow(outer.momentum2(), t)) /
                                             (1 - std::pow(outer.momentum(), t)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float g = gradient[i];
    first[i] = outer.momentum() * first[i] + (1 - outer.momentum()) * g;
    second[i] = outer.momentum2() * second[i] + (1 - outer.momentum2()) * g * g;
    values[i] -= outer.lr() * correction * first[i] / (std::sqrt(second[i]) + outer.delta());
  }
}

}  // namespace

void draw_outer(Random& random, ToyJob& job) {
  // Shards take the mean, regardless of what was drawn.
  job.mean = true;
  pb::PeriodicAveraging& averaging = *job.policies.mutable_periodic_averaging();
  averaging.set_interval(static_cast<std::uint32_t>(random.between(1, 8)));
  averaging.set_fragments(
      static_cast<std::uint32_t>(random.between(1, std::min(averaging.interval(), 3U))));
  pb::OuterOptimizer& outer = *averaging.mutable_outer();
  switch (random.below(4)) {
    case 0:
      outer.set_type("Adam");
      outer.set_lr(0.01F);
      break;
    case 1:
      outer.set_type("SGD");
      outer.set_momentum(random.chance(0.5) ? 0.0F : 0.5F);
      break;
    default:
      break;  // DiLoCo's
  }
  if (job.slack == Slack(0)) return;
  if (random.chance(0.5)) outer.set_buffer(static_cast<std::uint32_t>(random.between(2, 5)));
  if (random.chance(0.3)) job.policies.set_staleness_exponent(0.5F);
}

std::uint32_t buffer_of(const pb::Consistency& policies) {
  return policies.periodic_averaging().outer().buffer();
}

void step(const pb::Consistency& policies, std::int64_t steps, std::span<const float> gradient,
          std::span<float> values, States& states) {
  const pb::OuterOptimizer& outer = policies.periodic_averaging().outer();
  if (!policies.periodic_averaging().has_outer()) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= gradient[i];
  } else if (outer.type() == "Adam") {
    step_by_adam(outer, steps, gradient, values, states);
  } else if (outer.type() == "Nesterov") {
    step_by_momentum(outer, outer.momentum(), gradient, values, states);
  } else if (outer.momentum() > 0) {
    step_by_momentum(outer, 0, gradient, values, states);
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= outer.lr() * gradient[i];
  }
}

}  // namespace taut::sim
