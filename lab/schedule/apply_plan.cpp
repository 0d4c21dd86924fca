#include <algorithm>

#include "common/check.hpp"
#include "lab/schedule/simulator.hpp"

namespace taut::schedule {

// How a decision is applied to devices: first everything that stops or shrinks, then everything
// that starts or grows, in the plan's order; then the speeds.

void Simulator::apply(const Plan& plan) {
  ++decision_;
  for (const Grant& grant : plan.grants) {
    TAUT_CHECK(stamp_[grant.job] != decision_, "a job has two grants");
    const Phase phase = view_.state(grant.job).phase;
    TAUT_CHECK(phase == Phase::kWaiting || phase == Phase::kRunning, "a grant to no active job");
    stamp_[grant.job] = decision_;
    grant_of_[grant.job] = &grant;
  }
  stop_preempted(plan);
  const bool keeps_order = policy_.promise().keeps_order;
  for (const Grant& grant : plan.grants) {
    // If shares leave no device whole, the first job waits, and all behind it.
    if (!carry_out(grant) && keeps_order) break;
  }
  set_speeds(plan);
}

void Simulator::stop_preempted(const Plan& plan) {
  std::vector<JobIndex> stops;
  for (const JobIndex job : running_) {
    if (stamp_[job] != decision_) stops.push_back(job);
  }
  for (const JobIndex job : stops) stop(job);
  for (const Grant& grant : plan.grants) {
    if (!view_.is_running(grant.job)) continue;
    if (must_move(grant)) {
      stop(grant.job);
    } else if (grant.workers < view_.workers(grant.job)) {
      shrink(grant.job, view_.workers(grant.job) - grant.workers);
    }
  }
}

bool Simulator::must_move(const Grant& grant) {
  const JobState& one = state(grant.job);
  if (grant.type) {
    const bool fits = std::ranges::all_of(one.devices, [&](DeviceIndex device) {
      return cluster_.hosts[cluster_.host_of[device]].type == *grant.type;
    });
    if (!fits) return true;
  }
  if (grant.with != kNoJob) return view_.state(grant.with).devices != one.devices;
  if (has_share(grant.job)) return false;
  if (grant.cell) {
    const bool fits = std::ranges::all_of(one.devices, [&](DeviceIndex device) {
      return cluster_.hosts[cluster_.host_of[device]].cell == *grant.cell;
    });
    if (!fits) return true;
  }
  // It leaves devices that another job keeps for itself.
  if (users_[one.devices.front()] < 2) return false;
  return std::ranges::any_of(running_, [&](JobIndex other) {
    return other != grant.job && view_.state(other).devices == one.devices &&
           grant_of_[other]->with == kNoJob && other < grant.job;
  });
}

bool Simulator::carry_out(const Grant& grant) {
  if (!view_.is_running(grant.job)) {
    start(grant);
  } else if (grant.workers > view_.workers(grant.job)) {
    grow(grant, grant.workers - view_.workers(grant.job));
  } else if (grant.moves) {
    move_nearer(grant);
  }
  if (!view_.is_running(grant.job)) return false;
  JobState& one = state(grant.job);
  const double share = has_share(grant.job)
                           ? static_cast<double>(jobs_[grant.job].parts()) / kPartsOfDevice
                           : grant.share;
  const double frequency = frequency_of(grant);
  if (one.share == share && one.leader == grant.with && one.frequency == frequency) return true;
  settle(grant.job);
  one.share = share;
  one.leader = grant.with;
  one.frequency = frequency;
  has_slow_clocks_ |= frequency != 1;
  changed_[grant.job] = true;
  return true;
}

double Simulator::frequency_of(const Grant& grant) const {
  TAUT_CHECK(grant.frequency > 0 && grant.frequency <= 1, "a frequency is a part of the full one");
  if (has_share(grant.job)) return 1;
  return grant.with != kNoJob ? view_.state(grant.with).frequency : grant.frequency;
}

void Simulator::start(const Grant& grant) {
  JobState& one = state(grant.job);
  std::vector<DeviceIndex> devices;
  if (grant.with != kNoJob) {
    if (!view_.is_running(grant.with)) return;
    devices = view_.state(grant.with).devices;
  } else if (has_share(grant.job)) {
    TAUT_CHECK(!grant.cell, "a job that shares devices is placed in any cell");
    devices = placement_.take_part(jobs_[grant.job].parts(), one.last_devices);
    if (devices.empty()) return;
  } else {
    devices = placement_.take({.workers = grant.workers,
                               .type = grant.type,
                               .within = grant.within,
                               .before = &one.last_devices,
                               .cell = grant.cell});
    if (devices.empty()) return;
  }
  const bool is_back = devices == one.last_devices;
  if (!has_share(grant.job)) hold(devices);
  one.phase = Phase::kRunning;
  one.devices = std::move(devices);
  one.settled_s = view_.now_s_;
  if (one.starts == 0) one.started_s = view_.now_s_;
  one.resumes_s = view_.now_s_;
  if (one.starts > 0) pause(grant.job, is_back ? options_.resume_s : options_.restart_s);
  ++one.starts;
  running_.push_back(grant.job);
  changed_[grant.job] = true;
}

void Simulator::grow(const Grant& grant, std::uint32_t more) {
  const JobIndex job = grant.job;
  const std::vector<DeviceIndex> added = placement_.take_more(state(job).devices, more, grant.cell);
  if (added.empty()) return;
  settle(job);
  JobState& one = state(job);
  hold(added);
  one.devices.insert(one.devices.end(), added.begin(), added.end());
  std::ranges::sort(one.devices);
  ++one.changes;
  pause(job, options_.restart_s);
  changed_[job] = true;
}

void Simulator::shrink(JobIndex job, std::uint32_t less) {
  settle(job);
  JobState& one = state(job);
  // Those on loan are given up first, then those of the hosts with the fewest of its devices.
  std::vector<std::uint32_t> of_host(cluster_.hosts.size());
  for (const DeviceIndex device : one.devices) ++of_host[cluster_.host_of[device]];
  std::ranges::stable_sort(one.devices, {}, [&](DeviceIndex device) {
    const HostIndex host = cluster_.host_of[device];
    return std::pair(cluster_.hosts[host].on_loan, ~of_host[host]);
  });
  const std::vector<DeviceIndex> gone(one.devices.end() - less, one.devices.end());
  one.devices.resize(one.devices.size() - less);
  std::ranges::sort(one.devices);
  let_go(gone);
  ++one.changes;
  pause(job, options_.restart_s);
  changed_[job] = true;
}

void Simulator::move_nearer(const Grant& grant) {
  const JobIndex job = grant.job;
  JobState& one = state(job);
  if (users_[one.devices.front()] > 1) return;
  const std::vector<DeviceIndex> old = one.devices;
  const Tier old_tier = cluster_.tier_of(old);
  let_go(old);
  std::vector<DeviceIndex> found =
      placement_.take({.workers = static_cast<std::uint32_t>(old.size()), .cell = grant.cell});
  if (cluster_.tier_of(found) >= old_tier) {
    placement_.release(found);
    found = placement_.take({.workers = static_cast<std::uint32_t>(old.size()), .before = &old});
    hold(found);
    return;
  }
  settle(job);
  hold(found);
  one.devices = std::move(found);
  ++one.changes;
  pause(job, options_.restart_s);
  changed_[job] = true;
}

void Simulator::stop(JobIndex job) {
  settle(job);
  JobState& one = state(job);
  release_all(job);
  one.last_devices = std::move(one.devices);
  one.devices.clear();
  one.phase = Phase::kWaiting;
  one.waits_since_s = view_.now_s_;
  one.leader = kNoJob;
  one.share = 1;
  one.frequency = 1;
  one.speed = 0;
  ++one.preemptions;
  ++version_[job];
  std::erase(running_, job);
}

void Simulator::set_speeds(const Plan& plan) {
  // Jobs by the one whose devices they share.
  std::vector<std::pair<JobIndex, JobIndex>> followers;
  for (const Grant& grant : plan.grants) {
    if (grant.with != kNoJob && view_.is_running(grant.job)) {
      followers.emplace_back(grant.with, grant.job);
    }
  }
  std::ranges::sort(followers);
  for (const Grant& grant : plan.grants) {
    if (grant.with != kNoJob || !view_.is_running(grant.job)) continue;
    constexpr auto kLeader = &std::pair<JobIndex, JobIndex>::first;
    const auto first = std::ranges::lower_bound(followers, grant.job, {}, kLeader);
    const auto last = std::ranges::upper_bound(followers, grant.job, {}, kLeader);
    const bool is_shared = first != last;
    if (!changed_[grant.job] && !is_shared && !shared_[grant.job]) continue;
    std::vector<JobIndex> group = {grant.job};
    for (auto one = first; one != last; ++one) group.push_back(one->second);
    for (const JobIndex job : group) interleaved_[job] = grant.interleaved;
    set_speeds_of(group);
  }
}

void Simulator::set_speeds_of(const std::vector<JobIndex>& group) {
  std::vector<const Job*> jobs;
  jobs.reserve(group.size());
  for (const JobIndex job : group) jobs.push_back(&jobs_[job]);
  const bool is_shared = group.size() > 1;
  const double packed = packed_factor(jobs);
  const bool takes_turns = is_shared && interleaved_[group.front()];
  const double cycle_s = takes_turns ? interleaved_cycle_s(jobs) : 0;
  for (const JobIndex job : group) {
    set_speed(job, takes_turns ? jobs_[job].iteration_s / cycle_s : packed);
    shared_[job] = is_shared;
  }
}

void Simulator::close_ranks(JobIndex gone) {
  const JobIndex leader = view_.state(gone).leader == kNoJob ? gone : view_.state(gone).leader;
  std::vector<JobIndex> group;
  for (const JobIndex job : running_) {
    if (job == leader || view_.state(job).leader == leader) group.push_back(job);
  }
  std::ranges::sort(group);
  for (const JobIndex job : group) {
    state(job).leader = job == group.front() ? kNoJob : group.front();
  }
  if (!group.empty()) set_speeds_of(group);
}

void Simulator::set_speed(JobIndex job, double factor) {
  JobState& one = state(job);
  const double speed = factor * speed_of(jobs_[job], setting_of(job), cluster_);
  changed_[job] = false;
  settle(job);
  one.speed = speed;
  const double left = std::max(0.0, jobs_[job].service_s - one.progress_s);
  finishes_.push({std::max(view_.now_s_, one.resumes_s) + left / speed, job, ++version_[job]});
}

Setting Simulator::setting_of(JobIndex job) const {
  const std::vector<DeviceIndex>& devices = view_.state(job).devices;
  Setting setting{.workers = static_cast<std::uint32_t>(devices.size()),
                  .tier = cluster_.tier_of(devices),
                  .type = cluster_.hosts[cluster_.host_of[devices.front()]].type,
                  .frequency = view_.state(job).frequency};
  for (const DeviceIndex device : devices) {
    const DeviceType type = cluster_.hosts[cluster_.host_of[device]].type;
    if (type == setting.type) continue;
    if (device_speed(jobs_[job], type) < device_speed(jobs_[job], setting.type)) {
      setting.type = type;
    }
  }
  return setting;
}

void Simulator::pause(JobIndex job, double seconds) {
  JobState& one = state(job);
  one.resumes_s = std::max(one.resumes_s, view_.now_s_ + seconds);
}

void Simulator::hold(const std::vector<DeviceIndex>& devices) {
  for (const DeviceIndex device : devices) ++users_[device];
}

void Simulator::release_all(JobIndex job) {
  const std::vector<DeviceIndex>& devices = view_.state(job).devices;
  if (has_share(job)) {
    placement_.release_part(devices.front(), jobs_[job].parts());
  } else {
    let_go(devices);
  }
}

void Simulator::let_go(const std::vector<DeviceIndex>& devices) {
  std::vector<DeviceIndex> free;
  for (const DeviceIndex device : devices) {
    if (--users_[device] == 0) free.push_back(device);
  }
  placement_.release(free);
}

}  // namespace taut::schedule
