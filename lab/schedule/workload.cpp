#include "lab/schedule/workload.hpp"

#include <algorithm>
#include <cmath>

#include "common/check.hpp"
#include "lab/random.hpp"
#include "lab/schedule/models.hpp"

namespace taut::schedule {
namespace {

using sim::Random;

/// In [0, 1).
double uniform(Random& random) {
  return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

double between(Random& random, double low, double high) {
  return low + (high - low) * uniform(random);
}

void draw_gavel(Random& random, Job& job) {
  const double power = uniform(random) < 0.8 ? between(random, 1.5, 3) : between(random, 3, 4);
  job.service_s = 60 * std::pow(10.0, power);
  const double size = uniform(random);
  job.workers = size < 0.7 ? 1 : size < 0.825 ? 2 : size < 0.95 ? 4 : 8;
}

void draw_pollux(Random& random, Job& job) {
  struct Class {
    double share, low_hours, high_hours;
    std::uint32_t workers;
  };
  constexpr Class kClasses[] = {
      {0.72, 0.05, 1, 1}, {0.20, 1, 10, 4}, {0.06, 10, 100, 8}, {0.02, 100, 1000, 16}};
  double left = uniform(random);
  const Class* chosen = &kClasses[3];
  for (const Class& one : kClasses) {
    if (left < one.share) {
      chosen = &one;
      break;
    }
    left -= one.share;
  }
  const double hours =
      std::exp(between(random, std::log(chosen->low_hours), std::log(chosen->high_hours)));
  job.workers = chosen->workers;
  job.service_s = 3600 * hours / job.workers;
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names = {"gavel", "pollux"};
  return names;
}

Trace make_workload(const WorkloadRequest& request) {
  const bool is_gavel = request.distribution == "gavel";
  TAUT_CHECK(is_gavel || request.distribution == "pollux", "a workload without a distribution");
  Random random(request.seed);
  Trace trace;
  trace.format = request.distribution;
  double device_s = 0;
  for (std::uint32_t i = 0; i < request.jobs; ++i) {
    Job job;
    job.name = std::to_string(i);
    job.model = random.below(models().size());
    if (is_gavel) {
      draw_gavel(random, job);
    } else {
      draw_pollux(random, job);
    }
    job.workers = std::min(job.workers, request.max_workers);
    job.min_workers = std::max(1U, job.workers / 2);
    job.max_workers = 2 * job.workers;
    set_stages_of_model(job);
    device_s += job.service_s * job.workers;
    trace.jobs.push_back(std::move(job));
  }
  // The rate that gives the load with the drawn jobs.
  const double gap_s = device_s / request.jobs / (request.load * request.devices);
  double now_s = 0;
  for (Job& job : trace.jobs) {
    job.submit_s = now_s;
    now_s -= gap_s * std::log(1 - uniform(random));
  }
  return trace;
}

}  // namespace taut::schedule
