#include "lab/schedule/invariants.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lab/schedule/reservation.hpp"

namespace taut::schedule {
namespace {

constexpr double kRounding = 1e-6;

}  // namespace

Invariants::Invariants(const View& view, const Policy& policy)
    : promise_(policy.promise()),
      is_elastic_(policy.is_elastic()),
      given_(view.cluster().devices()) {}

std::optional<std::string> Invariants::check(const View& view, bool decided) {
  if (auto broken = check_devices(view)) return broken;
  if (auto broken = check_work(view)) return broken;
  return decided ? check_promise(view) : std::nullopt;
}

std::optional<std::string> Invariants::check_devices(const View& view) {
  std::ranges::fill(given_, 0);
  std::ranges::fill(memory_gib_, 0);
  for (const JobIndex job : view.active()) {
    if (!view.is_running(job)) continue;
    if (auto broken = check_gang(view, job)) return broken;
    if (auto broken = check_memory(view, job)) return broken;
    for (const DeviceIndex device : view.state(job).devices) {
      given_[device] += view.state(job).share;
      if (given_[device] <= 1 + kRounding) continue;
      return fmt::format("at {:.3f} s device {} is given to {:.3f} of itself, at last to job {}",
                         view.now_s(), device, given_[device], view.job(job).name);
    }
  }
  return std::nullopt;
}

std::optional<std::string> Invariants::check_memory(const View& view, JobIndex index) {
  const Job& job = view.job(index);
  if (job.memory_gib <= 0) return std::nullopt;
  memory_gib_.resize(given_.size());
  for (const DeviceIndex device : view.state(index).devices) {
    const Cluster& cluster = view.cluster();
    const double has = facts_of(cluster.hosts[cluster.host_of[device]].type).memory_gib;
    memory_gib_[device] += job.memory_gib;
    if (memory_gib_[device] <= has + kRounding) continue;
    return fmt::format(
        "at {:.3f} s the jobs on device {} take {:.3f} GiB of its {:g}, at last job {}",
        view.now_s(), device, memory_gib_[device], has, job.name);
  }
  return std::nullopt;
}

std::optional<std::string> Invariants::check_gang(const View& view, JobIndex index) const {
  const Job& job = view.job(index);
  const std::vector<DeviceIndex>& devices = view.state(index).devices;
  const std::uint32_t min = is_elastic_ ? job.min_workers : job.workers;
  const std::uint32_t max = is_elastic_ ? job.max_workers : job.workers;
  if (devices.size() < min || devices.size() > max) {
    return fmt::format("at {:.3f} s job {} has {} devices; it must have {} to {}, or none",
                       view.now_s(), job.name, devices.size(), min, max);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (i > 0 && devices[i] <= devices[i - 1]) {
      return fmt::format("at {:.3f} s job {} has device {} twice", view.now_s(), job.name,
                         devices[i]);
    }
    if (view.usable_hosts()[view.cluster().host_of[devices[i]]]) continue;
    return fmt::format("at {:.3f} s job {} has device {} of a host that may not be used",
                       view.now_s(), job.name, devices[i]);
  }
  const JobIndex leader = view.state(index).leader;
  if (leader != kNoJob && view.state(leader).devices != devices) {
    return fmt::format("at {:.3f} s job {} shares some of job {}'s devices, but not all",
                       view.now_s(), job.name, view.job(leader).name);
  }
  return std::nullopt;
}

std::optional<std::string> Invariants::check_work(const View& view) {
  for (const JobIndex job : were_active_) {
    if (view.state(job).phase != Phase::kEnded) continue;
    if (auto broken = check_progress(view, job)) return broken;
  }
  for (const JobIndex job : view.active()) {
    if (work_.size() <= job) work_.resize(job + 1);
    if (auto broken = check_progress(view, job)) return broken;
    work_[job] = {view.progress_s(job), view.is_running(job) ? view.state(job).speed : 0};
  }
  were_active_ = view.active();
  checked_s_ = view.now_s();
  return std::nullopt;
}

std::optional<std::string> Invariants::check_progress(const View& view, JobIndex job) const {
  const double progress = view.progress_s(job) - work_[job].progress_s;
  const double rounding = kRounding * (1 + view.job(job).service_s);
  const double most = work_[job].speed * (view.now_s() - checked_s_);
  if (progress >= -rounding && progress <= most + rounding) return std::nullopt;
  return fmt::format(
      "at {:.3f} s job {} has made {:.3f} s of work since {:.3f} s; it may make 0 to {:.3f} s",
      view.now_s(), view.job(job).name, progress, checked_s_, most);
}

std::optional<std::string> Invariants::check_promise(const View& view) {
  const bool is_whole = view.idle_parts() == Parts{kPartsOfDevice} * view.idle_devices();
  if (promise_.keeps_reservation) {
    if (auto broken = check_reservation(view)) return broken;
  }
  const std::vector<JobIndex>& active = view.active();
  JobIndex earlier = kNoJob;  // that waits and has never run
  for (const JobIndex job : active) {
    const bool waits = !view.is_running(job);
    if (promise_.conserves_work && is_whole && waits &&
        view.job(job).workers <= view.idle_devices()) {
      return fmt::format("at {:.3f} s job {} waits for {} devices while {} are idle", view.now_s(),
                         view.job(job).name, view.job(job).workers, view.idle_devices());
    }
    if (promise_.keeps_order) {
      if (waits && earlier == kNoJob) earlier = job;
      if (!waits && earlier != kNoJob) {
        return fmt::format("at {:.3f} s job {} runs before job {}, which was submitted earlier",
                           view.now_s(), view.job(job).name, view.job(earlier).name);
      }
    }
    if (!promise_.takes_turns) continue;
    if (rounds_.size() <= job) {
      rounds_.resize(job + 1);
      patience_.resize(job + 1);
    }
    rounds_[job] = waits ? rounds_[job] + 1 : 0;
    // Jobs that are ahead of it when its wait begins.
    if (rounds_[job] <= 1) patience_[job] = static_cast<std::uint32_t>(active.size()) + 1;
    if (rounds_[job] > patience_[job]) {
      return fmt::format("at {:.3f} s job {} has waited for {} rounds, with {} jobs ahead of it",
                         view.now_s(), view.job(job).name, rounds_[job], patience_[job] - 1);
    }
  }
  return std::nullopt;
}

std::optional<std::string> Invariants::check_reservation(const View& view) {
  JobIndex first = kNoJob;
  bool is_late = false;  // a job that has just started is slower than expected
  for (const JobIndex job : view.active()) {
    if (known_running_.size() <= job) known_running_.resize(job + 1);
    const bool runs = view.is_running(job);
    if (runs) {
      is_late = is_late || (!known_running_[job] && view.state(job).speed < 1 - kRounding);
    } else if (first == kNoJob) {
      first = job;
    }
    known_running_[job] = runs;
  }
  if (first == kNoJob) {
    first_waiting_ = kNoJob;
    return std::nullopt;
  }
  const double from_s = DeviceReservation(view, first, occupancies(view)).from_s();
  const double before_s = reserved_s_;
  const bool is_known = first == first_waiting_;
  first_waiting_ = first;
  reserved_s_ = from_s;
  if (!is_known || is_late || from_s <= before_s * (1 + kRounding) + kRounding) return std::nullopt;
  return fmt::format("at {:.3f} s job {} would have started at {:.3f} s, and now at {:.3f} s",
                     view.now_s(), view.job(first).name, before_s, from_s);
}

std::optional<std::string> Invariants::check_end(const View& view) const {
  for (JobIndex job = 0; job < work_.size(); ++job) {
    if (view.state(job).phase != Phase::kEnded) {
      return fmt::format("job {} never ends: the policy starves it", view.job(job).name);
    }
  }
  return std::nullopt;
}

}  // namespace taut::schedule
