#include "lab/schedule/view.hpp"

#include <algorithm>

namespace taut::schedule {

std::uint32_t View::usable_devices(DeviceType type) const {
  std::uint32_t count = 0;
  for (HostIndex host = 0; host < usable_hosts_.size(); ++host) {
    const Host& one = cluster_->hosts[host];
    if (usable_hosts_[host] && one.type == type) count += one.devices;
  }
  return count;
}

double View::attained_s(JobIndex index) const {
  const JobState& state = states_[index];
  if (state.phase != Phase::kRunning) return state.attained_s;
  return state.attained_s +
         (now_s_ - state.settled_s) * state.share * static_cast<double>(state.devices.size());
}

double View::held_s(JobIndex index) const {
  const JobState& state = states_[index];
  return state.held_s + (state.phase == Phase::kRunning ? now_s_ - state.settled_s : 0);
}

double View::progress_s(JobIndex index) const {
  const JobState& state = states_[index];
  double progress = state.progress_s;
  if (state.phase == Phase::kRunning) {
    progress += state.speed * std::max(0.0, now_s_ - std::max(state.settled_s, state.resumes_s));
  }
  return progress;
}

double View::left_s(JobIndex index) const {
  return std::max(0.0, jobs_[index].service_s - progress_s(index));
}

double View::remaining_s(JobIndex index) const {
  if (!is_running(index)) return left_s(index);
  const JobState& state = states_[index];
  return std::max(0.0, state.resumes_s - now_s_) + left_s(index) / state.speed;
}

}  // namespace taut::schedule
