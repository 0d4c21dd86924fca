#include "lab/schedule/fair_share.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>

namespace taut::schedule {
namespace {

/// Jobs that request the same parts of devices progress alike: one clock serves all of them.
struct Class {
  using End = std::pair<double, JobIndex>;  // on the clock
  double clock_s = 0;
  double rate = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
};

/// The fraction of its speed that each class gets: the devices are divided until all are used.
void set_rates(std::map<Parts, Class>& classes, double devices) {
  double jobs = 0;
  for (const auto& [parts, one] : classes) jobs += static_cast<double>(one.ends.size());
  for (auto& [parts, one] : classes) {
    if (one.ends.empty()) continue;
    const double requested = static_cast<double>(parts) / kPartsOfDevice;
    const double each = std::min(requested, devices / jobs);
    one.rate = each / requested;
    devices -= each * static_cast<double>(one.ends.size());
    jobs -= static_cast<double>(one.ends.size());
  }
}

}  // namespace

std::vector<double> fair_share_s(std::span<const Job> jobs, std::uint32_t devices) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> took_s(jobs.size());
  std::map<Parts, Class> classes;
  double now_s = 0;
  JobIndex next = 0;
  while (true) {
    set_rates(classes, devices);
    double end_s = kNever;
    Class* ending = nullptr;
    for (auto& [parts, one] : classes) {
      if (one.ends.empty()) continue;
      const double at_s = now_s + (one.ends.top().first - one.clock_s) / one.rate;
      if (at_s < end_s) {
        end_s = at_s;
        ending = &one;
      }
    }
    const double arrival_s = next < jobs.size() ? jobs[next].submit_s : kNever;
    const double until_s = std::min(end_s, arrival_s);
    if (until_s == kNever) return took_s;
    for (auto& [parts, one] : classes) {
      if (!one.ends.empty()) one.clock_s += one.rate * (until_s - now_s);
    }
    now_s = until_s;
    if (end_s <= arrival_s) {
      const JobIndex job = ending->ends.top().second;
      ending->ends.pop();
      took_s[job] = now_s - jobs[job].submit_s;
    } else {
      Class& one = classes[jobs[next].all_parts()];
      one.ends.emplace(one.clock_s + jobs[next].service_s, next);
      ++next;
    }
  }
}

}  // namespace taut::schedule
