#include "lab/schedule/policies/live.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/check.hpp"
#include "lab/schedule/placement.hpp"
#include "lab/schedule/reservation.hpp"

namespace taut::schedule {
namespace {

/// Running jobs keep their devices.
constexpr SchedulingPolicy::Ways kOnlyStarts{.shrinks = false, .preempts = false};

ScheduledJob scheduled(const View& view, JobIndex index) {
  const Job& job = view.job(index);
  const bool runs = view.is_running(index);
  const auto parts = static_cast<std::uint32_t>(job.all_parts());
  return {.job = JobId(index + 1),
          .min_workers = parts,
          .max_workers = parts,
          .workers = runs ? parts : 0,
          .service_s = view.attained_s(index),
          .remaining_s = view.remaining_s(index)};
}

/// The devices that are free in the simulation.
Placement placement_of(const View& view) {
  Placement placement(view.cluster());
  for (HostIndex host = 0; host < view.usable_hosts().size(); ++host) {
    placement.set_usable(host, view.usable_hosts()[host]);
  }
  for (const JobIndex job : view.active()) {
    if (!view.is_running(job)) continue;
    const std::vector<DeviceIndex>& devices = view.state(job).devices;
    const std::uint32_t parts = view.asked_parts_of_device(job);
    const std::vector<DeviceIndex> taken =
        parts < kPartsOfDevice ? placement.take_part(parts, devices)
                               : placement.take({.workers = view.workers(job), .before = &devices});
    TAUT_CHECK(taken == devices, "a running job has devices that are not free for it");
  }
  return placement;
}

/// What a waiting job would get if it started now; empty if there is no place for it.
std::vector<DeviceIndex> try_place(const View& view, JobIndex job, Placement& placement) {
  const std::uint32_t parts = view.asked_parts_of_device(job);
  const std::vector<DeviceIndex>& before = view.state(job).last_devices;
  if (parts < kPartsOfDevice) return placement.take_part(parts, before);
  return placement.take({.workers = view.job(job).workers, .before = &before});
}

}  // namespace

std::vector<JobIndex> LivePolicy::candidates(const View& view) const {
  std::vector<JobIndex> waiting;
  JobIndex first = kNoJob;
  JobIndex shortest = kNoJob;
  JobIndex least = kNoJob;
  for (const JobIndex job : view.active()) {
    if (view.is_running(job)) continue;
    if (view.job(job).all_parts() <= view.idle_parts()) {
      waiting.push_back(job);
      continue;
    }
    if (first == kNoJob) first = shortest = least = job;
    if (view.left_s(job) < view.left_s(shortest)) shortest = job;
    if (view.attained_s(job) < view.attained_s(least)) least = job;
  }
  if (first != kNoJob) waiting.insert(waiting.end(), {first, shortest, least});
  std::ranges::sort(waiting);
  waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());
  return waiting;
}

Plan LivePolicy::decide(const View& view) {
  Plan plan;
  SchedulingState state;
  for (const JobIndex job : view.active()) {
    if (!view.is_running(job)) continue;
    plan.grants.push_back(keep(view, job));
    state.running.push_back(scheduled(view, job));
  }
  if (view.idle_parts() == 0) return plan;
  state.idle_workers = static_cast<std::uint32_t>(view.idle_parts());
  for (const JobIndex job : candidates(view)) state.waiting.push_back(scheduled(view, job));
  for (const SchedulingDecision::Start& one : policy_->decide(state, kOnlyStarts).starts) {
    const auto job = static_cast<JobIndex>(one.job.value() - 1);
    plan.grants.push_back({.job = job, .workers = view.job(job).workers});
  }
  return plan;
}

std::vector<JobIndex> LivePolicyInOrder::candidates(const View& view) const {
  if (view.has_shares()) return placed_candidates(view);
  std::vector<JobIndex> shown;
  Parts idle = view.idle_parts();
  std::vector<std::pair<double, Parts>> ends;  // of running jobs: after how long, and the parts
  for (const JobIndex job : view.active()) {
    if (view.is_running(job)) ends.emplace_back(view.remaining_s(job), view.job(job).all_parts());
  }
  // Jobs that start, up to the first that does not: it reserves its devices.
  const std::vector<JobIndex>& active = view.active();
  auto next = active.begin();
  for (; next != active.end(); ++next) {
    if (view.is_running(*next)) continue;
    shown.push_back(*next);
    const Parts parts = view.job(*next).all_parts();
    if (parts > idle) break;
    idle -= parts;
    ends.emplace_back(view.left_s(*next), parts);
  }
  if (next == active.end() || idle == 0) return shown;
  const Parts reserved = view.job(*next).all_parts();
  std::ranges::stable_sort(ends, {}, &std::pair<double, Parts>::first);
  Parts free = idle;
  double from_s = 0;
  for (const auto& [after_s, parts] : ends) {
    if (free >= reserved) break;
    free += parts;
    from_s = after_s;
  }
  const Parts spare = free - std::min(free, reserved);
  for (++next; next != active.end(); ++next) {
    if (view.is_running(*next)) continue;
    const Parts parts = view.job(*next).all_parts();
    if (parts <= idle && (parts <= spare || view.left_s(*next) <= from_s)) shown.push_back(*next);
  }
  return shown;
}

std::vector<JobIndex> LivePolicyInOrder::placed_candidates(const View& view) {
  Placement placement = placement_of(view);
  std::vector<Occupancy> occupied = occupancies(view);
  std::vector<std::vector<DeviceIndex>> places;  // of jobs that start
  std::optional<DeviceReservation> reserved;
  std::vector<JobIndex> starts;
  for (const JobIndex job : view.active()) {
    if (view.is_running(job)) continue;
    if (placement.free_devices() == 0 && placement.loose_parts() == 0) break;
    const std::uint32_t parts = view.asked_parts_of_device(job);
    const double until_s = view.now_s() + view.left_s(job);
    // Any whole free devices would be missing from the reservation: no need to look for a place.
    if (reserved && until_s > reserved->from_s() && parts == kPartsOfDevice &&
        view.job(job).workers > reserved->spare()) {
      continue;
    }
    std::vector<DeviceIndex> devices = try_place(view, job, placement);
    if (devices.empty()) {
      if (!reserved) reserved.emplace(view, job, occupied);
      continue;
    }
    const Occupancy one{.until_s = until_s, .parts = parts, .devices = devices};
    if (reserved && !reserved->admit(one)) {
      if (parts < kPartsOfDevice) {
        placement.release_part(devices.front(), parts);
      } else {
        placement.release(devices);
      }
      continue;
    }
    starts.push_back(job);
    occupied.push_back(one);
    places.push_back(std::move(devices));  // which `one` still refers to
  }
  return starts;
}

}  // namespace taut::schedule
