#include "proto/config/settle_policies.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>

#include "common/ssp/policies/averaging.hpp"
#include "common/ssp/policies/backup_workers.hpp"
#include "common/ssp/policies/delay_compensation.hpp"
#include "common/ssp/policies/dynamic_slack.hpp"
#include "common/ssp/policies/look_ahead.hpp"
#include "common/ssp/policies/staleness_exponent.hpp"
#include "common/ssp/policies/staleness_rate.hpp"
#include "proto/config/settle_averaging.hpp"

namespace taut {
namespace {

using pb::Consistency;
using Policy = std::shared_ptr<const StalenessPolicy>;

constexpr std::uint32_t kMaxSlack = 1000;
constexpr float kMaxExponent = 10;  // a staleness of 1 weighs a thousandth

Result<Policy> make_backup_workers(const pb::Job& job) {
  const std::uint32_t backup = job.consistency().backup_workers();
  if (job.workers() == 0) {
    return invalid(fmt::format(
        "consistency: backup_workers {} needs the job to say how many workers it has", backup));
  }
  if (backup >= job.workers()) {
    return invalid(
        fmt::format("consistency: backup_workers {} of {} workers leave no worker; give at most {}",
                    backup, job.workers(), job.workers() - 1));
  }
  if (job.min_workers() > 0 && backup >= job.min_workers()) {
    return invalid(
        fmt::format("consistency: backup_workers {} of the min_workers {} with which the job may "
                    "start leave no worker; raise min_workers",
                    backup, job.min_workers()));
  }
  return std::make_shared<BackupWorkers>(backup);
}

Result<Policy> make_staleness_rate(const pb::Job& /*job*/) {
  return std::make_shared<StalenessRate>();
}

Result<Policy> make_staleness_exponent(const pb::Job& job) {
  const float exponent = job.consistency().staleness_exponent();
  if (!(exponent > 0 && exponent <= kMaxExponent)) {
    return invalid(fmt::format(
        "consistency: staleness_exponent is {}; it must be greater than 0 and at most {}", exponent,
        kMaxExponent));
  }
  if (job.consistency().staleness_learning_rate()) {
    return invalid(
        "consistency: staleness_exponent cannot be combined with staleness_learning_rate, which is "
        "another weight for the same staleness; leave one out");
  }
  return std::make_shared<StalenessExponent>(exponent);
}

Result<Policy> make_compensation(const pb::Job& job) {
  const pb::DelayCompensation& given = job.consistency().delay_compensation();
  if (!(given.strength() > 0) || !std::isfinite(given.strength())) {
    return invalid(
        fmt::format("consistency: delay_compensation.strength is {}; it must be greater than 0",
                    given.strength()));
  }
  if (!(given.decay() >= 0 && given.decay() < 1)) {
    return invalid(fmt::format(
        "consistency: delay_compensation.decay is {}; it must be at least 0 and below 1",
        given.decay()));
  }
  return std::make_shared<DelayCompensation>(
      math::DelayCompensation{given.strength(), given.decay()});
}

Result<Policy> make_look_ahead(const pb::Job& /*job*/) {
  return std::make_shared<LookAhead>();
}

Result<Policy> make_dynamic_slack(const pb::Job& job) {
  const pb::DynamicSlack& range = job.consistency().dynamic_slack();
  if (range.least() < 1 || range.most() <= range.least() || range.most() > kMaxSlack) {
    return invalid(
        fmt::format("consistency: dynamic_slack from {} to {}; it must start at 1 or more and end "
                    "higher, at {} at most",
                    range.least(), range.most(), kMaxSlack));
  }
  if (job.consistency().has_slack()) {
    return invalid(fmt::format(
        "consistency: dynamic_slack moves the slack between {} and {} by itself; slack {} cannot "
        "be given in addition",
        range.least(), range.most(), job.consistency().slack()));
  }
  return std::make_shared<DynamicSlackPolicy>(
      SlackRange{Slack(range.least()), Slack(range.most())});
}

/// Errors    invalid: an interval that is out of its range
Result<PushSchedule> schedule_of(const PolicyInfo& policy, std::uint32_t interval,
                                 const pb::Job& job) {
  if (interval < 1 || interval > kMaxInterval) {
    return invalid(fmt::format("consistency: {}.interval is {}; it must be from 1 to {} clocks",
                               policy.name, interval, kMaxInterval));
  }
  return PushSchedule{interval, Clock(job.solver_param().max_iter())};
}

Result<Policy> make_periodic_averaging(const pb::Job& job) {
  TAUT_TRY(const Averaging::Settings settings, to_periodic_averaging(job));
  return std::make_shared<Averaging>(settings);
}

Result<Policy> make_elastic_averaging(const pb::Job& job) {
  if (const auto found = misfit_of_averaging(job)) return invalid(found->what);
  const pb::ElasticAveraging& given = job.consistency().elastic_averaging();
  TAUT_TRY(const PushSchedule schedule, schedule_of(Averaging::kElastic, given.interval(), job));
  if (!(given.moving_rate() >= 0 && given.moving_rate() <= 1)) {
    return invalid(
        fmt::format("consistency: elastic_averaging.moving_rate is {}; it must be between 0 and 1",
                    given.moving_rate()));
  }
  return std::make_shared<Averaging>(Averaging::Settings{
      .exchange = Exchange::kElastic, .schedule = schedule, .moving_rate = given.moving_rate()});
}

/// A policy: whether a job requests it, and its settings.
struct Entry {
  PolicyInfo info;
  bool (*is_given)(const Consistency&);
  Result<Policy> (*make)(const pb::Job& job);
};

// In the order in which they weight an update: a correction precedes a scale.
constexpr std::array kPolicies{
    Entry{BackupWorkers::kInfo, [](const Consistency& c) { return c.backup_workers() > 0; },
          make_backup_workers},
    Entry{DelayCompensation::kInfo, [](const Consistency& c) { return c.has_delay_compensation(); },
          make_compensation},
    Entry{StalenessRate::kInfo, [](const Consistency& c) { return c.staleness_learning_rate(); },
          make_staleness_rate},
    Entry{StalenessExponent::kInfo, [](const Consistency& c) { return c.has_staleness_exponent(); },
          make_staleness_exponent},
    Entry{LookAhead::kInfo, [](const Consistency& c) { return c.look_ahead(); }, make_look_ahead},
    Entry{DynamicSlackPolicy::kInfo, [](const Consistency& c) { return c.has_dynamic_slack(); },
          make_dynamic_slack},
    Entry{Averaging::kPeriodic,
          [](const Consistency& c) {
            return c.has_periodic_averaging() && !c.periodic_averaging().has_outer();
          },
          make_periodic_averaging},
    Entry{Averaging::kOuter,
          [](const Consistency& c) { return c.periodic_averaging().has_outer(); },
          make_periodic_averaging},
    Entry{Averaging::kElastic, [](const Consistency& c) { return c.has_elastic_averaging(); },
          make_elastic_averaging},
};

Result<void> check_mode(const PolicyInfo& policy, const Consistency& consistency) {
  const bool fits[] = {true, is_bsp(consistency), !is_bsp(consistency),
                       consistency.mode() == Consistency::SSP};
  if (fits[static_cast<std::size_t>(policy.mode)]) return ok();
  if (policy.name == Averaging::kPeriodic.name) {
    return invalid(fmt::format(
        "consistency: {0} needs mode: BSP, not {1}; with {0} {{ outer {{}} }} it may be {1}",
        policy.name, Consistency::Mode_Name(consistency.mode())));
  }
  if (policy.mode == PolicyMode::kArrivals) {
    return invalid(fmt::format("consistency: {} needs mode: SSP or ASYNC; in BSP no update is late",
                               policy.name));
  }
  return invalid(fmt::format("consistency: {} needs mode: {}, not {}", policy.name,
                             policy.mode == PolicyMode::kBsp ? "BSP" : "SSP",
                             Consistency::Mode_Name(consistency.mode())));
}

Result<void> check_alone(const PolicyInfo& policy, const Consistency& consistency) {
  if (!policy.is_alone) return ok();
  for (const Entry& other : kPolicies) {
    if (other.info.name == policy.name || !other.is_given(consistency)) continue;
    if (other.info.is_scale && policy.goes_with_scales) continue;
    return invalid(
        fmt::format("consistency: {} cannot be combined with {}", policy.name, other.info.name));
  }
  return ok();
}

}  // namespace

Result<Policies> to_policies(const pb::Job& job) {
  const Consistency& consistency = job.consistency();
  Policies policies;
  for (const Entry& entry : kPolicies) {
    if (!entry.is_given(consistency)) continue;
    TAUT_TRY(check_alone(entry.info, consistency));
    TAUT_TRY(check_mode(entry.info, consistency));
    TAUT_TRY(auto policy, entry.make(job));
    policies.add(std::move(policy));
  }
  return policies;
}

}  // namespace taut
