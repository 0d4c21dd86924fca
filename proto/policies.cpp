#include "proto/policies.hpp"

#include <fmt/format.h>

#include <cmath>

namespace taut {
namespace {

using pb::Consistency;

std::string mode_of(const Consistency& wanted) {
  return Consistency::Mode_Name(wanted.mode());
}

/// Slack 0 is BSP, whatever the mode is called.
bool is_bsp(const Consistency& wanted) {
  return wanted.mode() == Consistency::BSP ||
         (wanted.mode() == Consistency::SSP && wanted.slack() == 0 && !wanted.has_dynamic_slack());
}

Result<void> needs_bsp(const Consistency& wanted, const char* field) {
  if (is_bsp(wanted)) return ok();
  return invalid(fmt::format("consistency: {} needs mode: BSP, not {}", field, mode_of(wanted)));
}

Result<void> needs_arrivals(const Consistency& wanted, const char* field) {
  if (!is_bsp(wanted)) return ok();
  return invalid(
      fmt::format("consistency: {} needs mode: SSP or ASYNC; in BSP no update is late", field));
}

Result<void> read_backup_workers(const pb::Job& job, Policies& policies) {
  const std::uint32_t backup = job.consistency().backup_workers();
  if (backup == 0) return ok();
  TAUT_TRY(needs_bsp(job.consistency(), "backup_workers"));
  if (job.workers() == 0) {
    return invalid(fmt::format(
        "consistency: backup_workers {} needs the job to say how many workers it has", backup));
  }
  if (backup >= job.workers()) {
    return invalid(
        fmt::format("consistency: backup_workers {} of {} workers leave none; give at most {}",
                    backup, job.workers(), job.workers() - 1));
  }
  policies.backup_workers = backup;
  return ok();
}

Result<void> read_compensation(const Consistency& wanted, Policies& policies) {
  if (!wanted.has_delay_compensation()) return ok();
  TAUT_TRY(needs_arrivals(wanted, "delay_compensation"));
  const pb::DelayCompensation& given = wanted.delay_compensation();
  if (!(given.strength() > 0) || !std::isfinite(given.strength())) {
    return invalid(fmt::format("consistency: delay_compensation.strength is {}; it must be above 0",
                               given.strength()));
  }
  if (!(given.decay() >= 0 && given.decay() < 1)) {
    return invalid(fmt::format(
        "consistency: delay_compensation.decay is {}; it must be at least 0 and below 1",
        given.decay()));
  }
  policies.compensation = math::DelayCompensation{given.strength(), given.decay()};
  return ok();
}

}  // namespace

Result<Policies> to_policies(const pb::Job& job) {
  const Consistency& wanted = job.consistency();
  Policies policies;
  TAUT_TRY(read_backup_workers(job, policies));
  if (wanted.staleness_learning_rate()) {
    TAUT_TRY(needs_arrivals(wanted, "staleness_learning_rate"));
    policies.staleness_rate = true;
  }
  TAUT_TRY(read_compensation(wanted, policies));
  return policies;
}

}  // namespace taut
