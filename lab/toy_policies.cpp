#include "lab/toy_policies.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "lab/toy_outer.hpp"

namespace taut::sim {
namespace {

using Fit = ToyPolicy::Fit;

void draw_none(Random& /*random*/, ToyJob& /*job*/) {}

void draw_backup(Random& random, ToyJob& job) {
  if (job.workers < 2) return;
  job.policies.set_backup_workers(static_cast<std::uint32_t>(random.between(1, job.workers - 1)));
}

void draw_staleness(Random& /*random*/, ToyJob& job) {
  job.policies.set_staleness_learning_rate(true);
}

void draw_exponent(Random& random, ToyJob& job) {
  job.policies.set_staleness_exponent(static_cast<float>(random.between(1, 8)) / 4);
}

void draw_compensation(Random& random, ToyJob& job) {
  job.policies.mutable_delay_compensation()->set_strength(0.01F);
  if (random.chance(0.5)) job.policies.mutable_delay_compensation()->set_decay(0.9F);
  // At times both at once.
  if (random.chance(0.2)) job.policies.set_staleness_learning_rate(true);
}

void draw_dynamic(Random& random, ToyJob& job) {
  job.policies.mutable_dynamic_slack()->set_most(
      static_cast<std::uint32_t>(job.slack.clocks() + random.between(1, 8)));
}

void draw_periodic(Random& random, ToyJob& job) {
  // Shards take the mean, regardless of what was drawn.
  job.mean = true;
  job.policies.mutable_periodic_averaging()->set_interval(
      static_cast<std::uint32_t>(random.between(2, 8)));
}

void draw_elastic(Random& random, ToyJob& job) {
  job.mean = false;
  job.policies.mutable_elastic_averaging()->set_interval(
      static_cast<std::uint32_t>(random.between(1, 8)));
}

/// At least two workers, since one has the whole batch.
void draw_balance(Random& /*random*/, ToyJob& job) {
  job.balance = job.workers > 1;
}

/// Updates that wait for others to make a step, with a rule that counts each once.
void draw_buffer(Random& random, ToyJob& job) {
  job.mean = true;
  pb::PeriodicAveraging& averaging = *job.policies.mutable_periodic_averaging();
  averaging.set_interval(static_cast<std::uint32_t>(random.between(1, 4)));
  pb::OuterOptimizer& outer = *averaging.mutable_outer();
  outer.set_type("SGD");
  outer.set_lr(1);
  outer.set_momentum(0);
  outer.set_buffer(static_cast<std::uint32_t>(random.between(2, 5)));
}

constexpr std::array kPolicies{
    ToyPolicy{"none", Fit::kAny, draw_none},
    ToyPolicy{"backup", Fit::kBsp, draw_backup},
    ToyPolicy{"staleness", Fit::kArrivals, draw_staleness},
    ToyPolicy{"exponent", Fit::kArrivals, draw_exponent},
    ToyPolicy{"compensation", Fit::kArrivals, draw_compensation},
    ToyPolicy{"dynamic", Fit::kSsp, draw_dynamic},
    ToyPolicy{"periodic", Fit::kBsp, draw_periodic},
    ToyPolicy{"elastic", Fit::kAny, draw_elastic},
    ToyPolicy{"outer", Fit::kAny, draw_outer},
    ToyPolicy{"balance", Fit::kAny, draw_balance},
};

// Only by its name: the draws of seeds, in which "outer" includes buffers, must not change.
constexpr ToyPolicy kBuffer{"buffer", Fit::kArrivals, draw_buffer};

void compensate(const pb::DelayCompensation& settings, const ExpectedUpdate& late) {
  std::vector<float>& mean_square = late.states["compensation"];
  mean_square.resize(late.update.size(), 0.0F);
  for (std::size_t i = 0; i < late.update.size(); ++i) {
    const float g = late.update[i];
    float strength = settings.strength();
    if (const float decay = settings.decay(); decay > 0) {
      mean_square[i] = decay * mean_square[i] + (1.0F - decay) * g * g;
      strength = strength / std::sqrt(mean_square[i] + 1e-7F);
    }
    late.update[i] = g + strength * g * g * (late.values[i] - late.read[i]);
  }
}

}  // namespace

std::span<const ToyPolicy> toy_policies() {
  return kPolicies;
}

Result<const ToyPolicy*> find_policy(std::string_view name) {
  std::string known;
  for (const ToyPolicy& policy : kPolicies) {
    if (name == policy.name) return &policy;
    known += known.empty() ? policy.name : fmt::format(", {}", policy.name);
  }
  if (name == kBuffer.name) return &kBuffer;
  known += fmt::format(", {}", kBuffer.name);
  return invalid(fmt::format("policy \"{}\" is unknown; choose of {}", name, known));
}

bool weighs(const pb::Consistency& policies) {
  return policies.has_delay_compensation() || policies.staleness_learning_rate() ||
         policies.has_staleness_exponent();
}

void weigh(const pb::Consistency& policies, const ExpectedUpdate& late) {
  if (policies.has_delay_compensation()) compensate(policies.delay_compensation(), late);
  if (policies.staleness_learning_rate() && late.staleness > 1) {
    for (float& one : late.update) one *= static_cast<float>(1 / late.staleness);
  }
  if (policies.has_staleness_exponent()) {
    const double weight = std::pow(1 + late.staleness, -policies.staleness_exponent());
    for (float& one : late.update) one *= static_cast<float>(weight);
  }
}

}  // namespace taut::sim
