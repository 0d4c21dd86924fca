#include "lab/schedule/throughput.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/check.hpp"
#include "lab/schedule/traces/planned_models.hpp"

namespace taut::schedule {

double iteration_s(const Model& model, const Setting& setting, const Cluster& cluster) {
  constexpr double kStraggling = 0.03;
  constexpr double kHidden = 0.5;
  const double workers = setting.workers;
  const double speed = setting.frequency * model.speed[static_cast<std::size_t>(setting.type)];
  const double compute = model.iteration_s / speed * (1 + kStraggling * std::log2(workers));
  const double link_bytes = cluster.gbps[static_cast<std::size_t>(setting.tier)] * 1e9 / 8;
  const double exchange = 2 * (workers - 1) / workers * 4 * model.parameters / link_bytes;
  return compute + std::max(0.0, exchange - kHidden * compute);
}

double speed_of(const Job& job, const Setting& setting, const Cluster& cluster) {
  if (job.planned != nullptr) {
    const bool would_be_across = cluster.nearest_tier(job.workers) != Tier::kHost;
    const bool is_across = setting.workers > 1 && setting.tier != Tier::kHost;
    const double rate = job.planned->iterations_per_s(setting.type, is_across, setting.workers);
    return setting.frequency * rate /
           job.planned->best_iterations_per_s(would_be_across, job.workers);
  }
  const Model& model = models()[job.model];
  const Setting requested_setting{.workers = job.workers,
                                  .tier = cluster.nearest_tier(job.workers)};
  const double rate = setting.workers / iteration_s(model, setting, cluster);
  return rate * iteration_s(model, requested_setting, cluster) / job.workers;
}

double device_speed(const Job& job, DeviceType type) {
  if (job.planned != nullptr) return job.planned->iterations_per_s(type, false, 1);
  return models()[job.model].speed[static_cast<std::size_t>(type)];
}

double packed_factor(std::span<const Job* const> jobs) {
  if (jobs.size() < 2) return 1;
  double busiest = 1;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    double used = 0;
    for (const Job* job : jobs) used += job->stage_s[stage] / job->iteration_s;
    busiest = std::max(busiest, used);
  }
  return 1 / busiest;
}

double interleaved_cycle_s(std::span<const Job* const> jobs) {
  TAUT_CHECK(jobs.size() <= kStages, "more jobs than stages in a cycle");
  std::array<std::size_t, kStages> start{};
  std::iota(start.begin(), start.end(), std::size_t{0});
  double shortest = std::numeric_limits<double>::infinity();
  do {
    double cycle = 0;
    for (std::size_t turn = 0; turn < kStages; ++turn) {
      double slowest = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        slowest = std::max(slowest, jobs[i]->stage_s[(start[i] + turn) % kStages]);
      }
      cycle += slowest;
    }
    shortest = std::min(shortest, cycle);
  } while (std::ranges::next_permutation(start).found);
  for (const Job* job : jobs) shortest = std::max(shortest, job->iteration_s);
  return shortest;
}

double interleaving_efficiency(std::span<const Job* const> jobs) {
  double used = 0;
  for (const Job* job : jobs)
    used += std::accumulate(job->stage_s.begin(), job->stage_s.end(), 0.0);
  return used / (interleaved_cycle_s(jobs) * static_cast<double>(kStages));
}

}  // namespace taut::schedule
