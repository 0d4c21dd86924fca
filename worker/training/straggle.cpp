#include "worker/training/straggle.hpp"

#include <algorithm>
#include <cmath>

#include "common/math/philox.hpp"

namespace taut::worker {
namespace {

using math::Philox;

Duration from_ms(double ms) {
  return Duration(static_cast<Duration::rep>(std::llround(1000 * ms)));
}

/// Independent draws for each straggler of each worker.
std::uint64_t stream_of(std::size_t index, std::uint32_t slot, std::uint64_t purpose) {
  constexpr std::uint64_t kStream = math::name_stream("straggler", 9);
  return kStream + (purpose << 56U) + (std::uint64_t{index} << 32U) + slot;
}
constexpr std::uint64_t kOfClock = 1;
constexpr std::uint64_t kOfPeriod = 2;

bool is_turn_of(const pb::Straggler& straggler, const StragglePlan& plan, std::uint64_t clock) {
  const auto& named = straggler.worker();
  const auto place = std::find(named.begin(), named.end(), plan.slot);
  if (!named.empty() && place == named.end()) return false;
  if (straggler.rotate() == 0) return true;
  const auto own = named.empty() ? plan.slot : static_cast<std::uint64_t>(place - named.begin());
  const auto count = named.empty() ? plan.slots : static_cast<std::uint64_t>(named.size());
  return clock / straggler.rotate() % count == own;
}

bool in_burst(const pb::Straggler::Burst& burst, std::size_t index, const StragglePlan& plan,
              std::uint64_t clock) {
  const std::uint64_t period = clock / burst.period();
  std::uint64_t begin = burst.offset();
  if (burst.random()) {
    const auto draw = Philox::at(plan.seed, stream_of(index, plan.slot, kOfPeriod), period);
    begin = draw.words[0] % (burst.period() - burst.length() + 1);
  }
  const std::uint64_t place = clock % burst.period();
  // A burst that starts late in its period wraps around to the period's start.
  return (place + burst.period() - begin) % burst.period() < burst.length();
}

/// unit  [0, 1)
double drawn_delay_ms(const pb::Straggler& straggler, double unit) {
  constexpr double kShape = 2.5;
  const double mean = straggler.delay_ms();
  switch (straggler.distribution()) {
    case pb::Straggler::UNIFORM:
      return 2 * mean * unit;
    case pb::Straggler::EXPONENTIAL:
      return -mean * std::log1p(-unit);
    case pb::Straggler::PARETO:
      // The scale that gives a Pareto distribution this mean.
      return mean * (kShape - 1) / kShape * std::pow(1 - unit, -1 / kShape);
    case pb::Straggler::CONSTANT:
      break;
  }
  return mean;
}

}  // namespace

StragglePlan straggle_plan(const pb::Job& job, const pb::WorkerConfig& settings, std::uint32_t slot,
                           std::uint32_t slots) {
  StragglePlan plan;
  plan.stragglers.assign(job.straggler().begin(), job.straggler().end());
  plan.stragglers.insert(plan.stragglers.end(), settings.straggler().begin(),
                         settings.straggler().end());
  if (settings.slowdown_ms() > 0) {
    pb::Straggler& random = plan.stragglers.emplace_back();
    random.set_distribution(pb::Straggler::UNIFORM);
    random.set_delay_ms(settings.slowdown_ms() / 2);
  }
  plan.clock_time =
      from_ms(settings.has_clock_time_ms() ? settings.clock_time_ms() : job.clock_time_ms());
  plan.seed = job.seed();
  plan.slot = slot;
  plan.slots = slots;
  return plan;
}

LinkFaults link_faults(const pb::Job& job, const pb::WorkerConfig& settings) {
  const pb::NetworkFaults& requested = settings.has_network() ? settings.network() : job.network();
  return {from_ms(requested.delay_ms()), from_ms(requested.jitter_ms()), requested.loss()};
}

Duration straggle_wait(const StragglePlan& plan, Clock clock, Duration compute) {
  const Duration padded = std::max(compute, plan.clock_time);
  Duration wait = padded - compute;
  const auto at = static_cast<std::uint64_t>(clock.value());
  for (std::size_t i = 0; i < plan.stragglers.size(); ++i) {
    const pb::Straggler& straggler = plan.stragglers[i];
    if (!is_turn_of(straggler, plan, at)) continue;
    if (straggler.has_burst() && !in_burst(straggler.burst(), i, plan, at)) continue;
    const auto draw = Philox::at(plan.seed, stream_of(i, plan.slot, kOfClock), at);
    if (math::unit_float(draw.words[0]) >= straggler.rate()) continue;
    wait += from_ms(1000 * seconds(padded) * (straggler.slowdown() - 1));
    wait += from_ms(drawn_delay_ms(straggler, math::unit_float(draw.words[1])));
  }
  return wait;
}

}  // namespace taut::worker
