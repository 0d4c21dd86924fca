#include "proto/policies.hpp"

#include <fmt/format.h>

#include <cmath>

namespace taut {
namespace {

using pb::Consistency;

constexpr std::uint32_t kMostSlack = 1000;
constexpr std::uint32_t kMostInterval = 1'000'000;

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

Result<void> read_dynamic_slack(const Consistency& wanted, Policies& policies) {
  if (!wanted.has_dynamic_slack()) return ok();
  const pb::DynamicSlack& range = wanted.dynamic_slack();
  if (wanted.mode() != Consistency::SSP) {
    return invalid(
        fmt::format("consistency: dynamic_slack needs mode: SSP, not {}", mode_of(wanted)));
  }
  if (range.least() < 1 || range.most() <= range.least() || range.most() > kMostSlack) {
    return invalid(fmt::format(
        "consistency: dynamic_slack from {} to {}; it must go from 1 or more to more than that, "
        "and to {} at most",
        range.least(), range.most(), kMostSlack));
  }
  if (wanted.has_slack()) {
    return invalid(fmt::format(
        "consistency: dynamic_slack moves the slack between {} and {} by itself; slack {} cannot "
        "be given beside it",
        range.least(), range.most(), wanted.slack()));
  }
  policies.dynamic_slack = SlackRange{Slack(range.least()), Slack(range.most())};
  return ok();
}

Result<void> check_interval(const char* field, std::uint32_t interval) {
  if (interval >= 1 && interval <= kMostInterval) return ok();
  return invalid(fmt::format("consistency: {}.interval is {}; it must be from 1 to {} clocks",
                             field, interval, kMostInterval));
}

/// Workers that train on their own have no late updates, and do not wait at every clock.
Result<void> check_alone(const Consistency& wanted, const char* field) {
  const char* other = nullptr;
  if (wanted.has_dynamic_slack()) other = "dynamic_slack";
  if (wanted.backup_workers() > 0) other = "backup_workers";
  if (wanted.staleness_learning_rate()) other = "staleness_learning_rate";
  if (wanted.has_delay_compensation()) other = "delay_compensation";
  if (wanted.look_ahead()) other = "look_ahead";
  if (wanted.has_elastic_averaging() && wanted.has_periodic_averaging()) other = "the other one";
  if (other == nullptr) return ok();
  return invalid(fmt::format("consistency: {} does not go with {}", field, other));
}

Result<void> read_periodic_averaging(const pb::Job& job, Policies& policies) {
  const Consistency& wanted = job.consistency();
  if (!wanted.has_periodic_averaging()) return ok();
  TAUT_TRY(check_alone(wanted, "periodic_averaging"));
  TAUT_TRY(needs_bsp(wanted, "periodic_averaging"));
  TAUT_TRY(check_interval("periodic_averaging", wanted.periodic_averaging().interval()));
  if (job.reduction() == pb::Job::SUM) {
    return invalid("consistency: periodic_averaging takes the mean; leave reduction: SUM out");
  }
  policies.exchange = Exchange::kPeriodic;
  policies.schedule.interval = wanted.periodic_averaging().interval();
  return ok();
}

Result<void> read_elastic_averaging(const Consistency& wanted, Policies& policies) {
  if (!wanted.has_elastic_averaging()) return ok();
  TAUT_TRY(check_alone(wanted, "elastic_averaging"));
  const pb::ElasticAveraging& given = wanted.elastic_averaging();
  TAUT_TRY(check_interval("elastic_averaging", given.interval()));
  if (!(given.moving_rate() >= 0 && given.moving_rate() <= 1)) {
    return invalid(
        fmt::format("consistency: elastic_averaging.moving_rate is {}; it must be between 0 and 1",
                    given.moving_rate()));
  }
  policies.exchange = Exchange::kElastic;
  policies.moving_rate = given.moving_rate();
  policies.schedule.interval = given.interval();
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
  if (wanted.look_ahead()) {
    TAUT_TRY(needs_arrivals(wanted, "look_ahead"));
  }
  TAUT_TRY(read_dynamic_slack(wanted, policies));
  TAUT_TRY(read_periodic_averaging(job, policies));
  TAUT_TRY(read_elastic_averaging(wanted, policies));
  if (policies.exchange != Exchange::kNone) {
    policies.schedule.end = Clock(job.solver_param().max_iter());
  }
  return policies;
}

}  // namespace taut
