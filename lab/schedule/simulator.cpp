#include "lab/schedule/simulator.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "common/check.hpp"

namespace taut::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kAtOnce = 1e-9;             // events as near as this happen together
constexpr std::uint32_t kHopeless = 100000;  // decisions in a row without devices for any job

}  // namespace

Simulator::Simulator(std::span<const Job> jobs, const Cluster& cluster, Policy& policy,
                     const SimulationOptions& options)
    : jobs_(jobs),
      cluster_(cluster),
      policy_(policy),
      options_(options),
      view_(jobs, cluster),
      placement_(cluster),
      invariants_(view_, policy),
      wake_s_(kNever),
      users_(cluster.devices()),
      version_(jobs.size()),
      stamp_(jobs.size()),
      grant_of_(jobs.size()),
      changed_(jobs.size()),
      shared_(jobs.size()),
      interleaved_(jobs.size()) {
  view_.counts_shares_ = policy.counts_shares();
  view_.has_shares_ = policy.counts_shares() && std::ranges::any_of(jobs, [](const Job& job) {
                        return job.parts() < kPartsOfDevice;
                      });
  view_.usable_hosts_.resize(cluster.hosts.size());
  for (HostIndex host = 0; host < cluster.hosts.size(); ++host) {
    const bool usable = !cluster.hosts[host].on_loan;
    view_.usable_hosts_[host] = usable;
    placement_.set_usable(host, usable);
  }
  count_idle();
}

void Simulator::count_idle() {
  view_.idle_ = placement_.free_devices();
  view_.idle_parts_ = Parts{kPartsOfDevice} * view_.idle_ + placement_.loose_parts();
}

Result<SimulationResult> Simulator::run() {
  while (ended_ < jobs_.size() && idle_decisions_ < kHopeless) {
    const double at_s = next_event_s();
    if (at_s == kNever) break;
    advance(at_s);
    const bool happened = handle_events();
    const double round_s = policy_.round_s();
    const bool is_due = wake_s_ <= view_.now_s_ + kAtOnce;
    bool decides = is_due || (happened && round_s == 0);
    if (decides) decide();
    if (round_s > 0 && wake_s_ == kNever && !view_.active_.empty()) {
      wake_s_ = round_s * std::ceil(view_.now_s_ / round_s - kAtOnce);
      if (wake_s_ <= view_.now_s_ + kAtOnce) {
        decide();
        decides = true;
      }
    }
    if (auto broken = invariants_.check(view_, decides)) return invalid(*broken);
  }
  if (auto broken = invariants_.check_end(view_)) return invalid(*broken);
  result_.makespan_s = view_.now_s_;
  for (const JobState& job : view_.states_) result_.paused_s += job.paused_s;
  result_.jobs = std::move(view_.states_);
  return std::move(result_);
}

double Simulator::next_event_s() {
  while (!finishes_.empty() && finishes_.top().version != version_[finishes_.top().job]) {
    finishes_.pop();
  }
  double at_s = wake_s_;
  if (!finishes_.empty()) at_s = std::min(at_s, finishes_.top().at_s);
  if (next_arrival_ < jobs_.size()) at_s = std::min(at_s, jobs_[next_arrival_].submit_s);
  const bool lends = policy_.uses_loans() && next_loan_ < cluster_.loans.size();
  if (lends) at_s = std::min(at_s, cluster_.loans[next_loan_].at_s);
  return at_s;
}

void Simulator::advance(double to_s) {
  const double seconds = std::max(0.0, to_s - view_.now_s_);
  if (seconds > 0) {
    const std::uint32_t idle = placement_.free_devices();
    result_.usable_s += seconds * view_.usable_;
    const double loose = static_cast<double>(placement_.loose_parts()) / kPartsOfDevice;
    result_.held_s += seconds * (view_.usable_ - idle - loose);
    if (running_.size() < view_.active_.size()) result_.idle_wait_s += seconds * idle;
    for (HostIndex host = 0; host < cluster_.hosts.size(); ++host) {
      if (!view_.usable_hosts_[host]) continue;
      const DeviceFacts& facts = facts_of(cluster_.hosts[host].type);
      const std::uint32_t free = placement_.free_of(host);
      result_.joules += seconds * (free * facts.idle_watts +
                                   (cluster_.hosts[host].devices - free) * facts.busy_watts);
    }
    if (has_slow_clocks_) result_.joules -= seconds * saved_watts();
  }
  view_.now_s_ = std::max(view_.now_s_, to_s);
}

/// The power of a device beyond its idle watts falls with the cube of its frequency.
/// Source    Weiser et al., "Scheduling for Reduced CPU Energy", OSDI 1994: the energy of a cycle
///           falls with the square of the voltage, and that with the frequency
double Simulator::saved_watts() const {
  double watts = 0;
  for (const JobIndex job : running_) {
    const JobState& one = view_.state(job);
    if (one.leader != kNoJob || one.frequency == 1) continue;
    const double saved = 1 - one.frequency * one.frequency * one.frequency;
    for (const DeviceIndex device : one.devices) {
      const DeviceFacts& facts = facts_of(cluster_.hosts[cluster_.host_of[device]].type);
      watts += saved * (facts.busy_watts - facts.idle_watts);
    }
  }
  return watts;
}

bool Simulator::handle_events() {
  const double until_s = view_.now_s_ + kAtOnce;
  bool happened = false;
  while (!finishes_.empty() && finishes_.top().at_s <= until_s) {
    const Finish finish = finishes_.top();
    finishes_.pop();
    if (finish.version != version_[finish.job]) continue;
    end(finish.job);
    happened = true;
  }
  while (next_arrival_ < jobs_.size() && jobs_[next_arrival_].submit_s <= until_s) {
    arrive(next_arrival_++);
    happened = true;
  }
  while (policy_.uses_loans() && next_loan_ < cluster_.loans.size() &&
         cluster_.loans[next_loan_].at_s <= until_s) {
    lend(cluster_.loans[next_loan_++].hosts);
    happened = true;
  }
  count_idle();
  return happened;
}

void Simulator::arrive(JobIndex job) {
  state(job).phase = Phase::kWaiting;
  state(job).waits_since_s = view_.now_s_;
  state(job).settled_s = view_.now_s_;
  view_.active_.push_back(job);
}

void Simulator::end(JobIndex job) {
  settle(job);
  JobState& one = state(job);
  const double service = jobs_[job].service_s;
  TAUT_CHECK(std::abs(one.progress_s - service) < 1e-6 * service + 1e-6, "a job ends too soon");
  one.progress_s = service;
  release_all(job);
  one.last_devices.clear();
  one.devices.clear();
  one.phase = Phase::kEnded;
  one.ended_s = view_.now_s_;
  ++version_[job];
  std::erase(running_, job);
  if (shared_[job]) close_ranks(job);
  view_.active_.erase(std::ranges::lower_bound(view_.active_, job));
  constexpr std::size_t kBetween = 1000;
  if (++ended_ % kBetween == 0 && options_.progress) options_.progress(ended_);
}

void Simulator::lend(std::uint32_t hosts) {
  for (HostIndex host = 0; host < cluster_.hosts.size() && lent_ < hosts; ++host) {
    if (!cluster_.hosts[host].on_loan || view_.usable_hosts_[host]) continue;
    view_.usable_hosts_[host] = true;
    view_.usable_ += cluster_.hosts[host].devices;
    placement_.set_usable(host, true);
    ++lent_;
  }
  while (lent_ > hosts) take_back(cheapest_to_return());
}

HostIndex Simulator::cheapest_to_return() const {
  std::vector<std::uint32_t> cost(cluster_.hosts.size());
  for (const JobIndex job : running_) {
    std::vector<std::uint32_t> of_host(cluster_.hosts.size());
    for (const DeviceIndex device : view_.state(job).devices) ++of_host[cluster_.host_of[device]];
    for (HostIndex host = 0; host < of_host.size(); ++host) {
      const bool survives = view_.workers(job) - of_host[host] >= jobs_[job].min_workers;
      if (of_host[host] > 0) cost[host] += survives ? 1 : 1000;
    }
  }
  std::optional<HostIndex> cheapest;
  for (HostIndex host = 0; host < cost.size(); ++host) {
    if (!cluster_.hosts[host].on_loan || !view_.usable_hosts_[host]) continue;
    if (!cheapest || cost[host] < cost[*cheapest]) cheapest = host;
  }
  TAUT_CHECK(cheapest, "more hosts are returned than were lent");
  return *cheapest;
}

void Simulator::take_back(HostIndex host) {
  for (const JobIndex job : std::vector<JobIndex>(running_)) {
    JobState& one = state(job);
    const auto is_here = [&](DeviceIndex device) { return cluster_.host_of[device] == host; };
    const auto here = static_cast<std::uint32_t>(std::ranges::count_if(one.devices, is_here));
    if (here == 0) continue;
    if (one.devices.size() - here < jobs_[job].min_workers) {
      stop(job);
      continue;
    }
    settle(job);
    std::vector<DeviceIndex> gone;
    std::ranges::copy_if(one.devices, std::back_inserter(gone), is_here);
    std::erase_if(one.devices, is_here);
    let_go(gone);
    ++one.changes;
    pause(job, options_.restart_s);
    set_speed(job, 1);
  }
  placement_.set_usable(host, false);
  view_.usable_hosts_[host] = false;
  view_.usable_ -= cluster_.hosts[host].devices;
  --lent_;
}

void Simulator::decide() {
  wake_s_ = kNever;
  if (view_.active_.empty()) return;
  count_idle();
  const auto began = std::chrono::steady_clock::now();
  const Plan plan = policy_.decide(view_);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  ++result_.decisions;
  result_.decide_s += took.count();
  result_.decide_max_s = std::max(result_.decide_max_s, took.count());
  apply(plan);
  count_idle();
  idle_decisions_ = running_.empty() ? idle_decisions_ + 1 : 0;
  if (plan.wake_s > view_.now_s_ + kAtOnce) wake_s_ = plan.wake_s;
  const double round_s = policy_.round_s();
  if (round_s > 0) {
    const double next = round_s * (std::floor(view_.now_s_ / round_s + kAtOnce) + 1);
    wake_s_ = std::min(wake_s_, next);
  }
}

void Simulator::settle(JobIndex job) {
  JobState& one = state(job);
  const double now = view_.now_s_;
  const double seconds = now - one.settled_s;
  if (one.phase == Phase::kRunning && seconds > 0) {
    const double devices = static_cast<double>(one.devices.size());
    const double paused = std::clamp(one.resumes_s - one.settled_s, 0.0, seconds);
    one.held_s += seconds;
    one.attained_s += seconds * one.share * devices;
    one.paused_s += paused * one.share * devices;
    one.progress_s += one.speed * (seconds - paused);
  }
  one.settled_s = now;
}

}  // namespace taut::schedule
