#include "proto/config/settle_averaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/did_you_mean.hpp"
#include "common/math/update_rules.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"

namespace taut {
namespace {

using pb::Consistency;
using pb::OuterOptimizer;

constexpr std::uint32_t kMaxBuffer = 1000;

FieldMisfit misfit(const char* field, const std::string& what) {
  return {{{"consistency"}, {"periodic_averaging"}, {field}},
          fmt::format("consistency: periodic_averaging.{} {}", field, what)};
}

FieldMisfit misfit_of_outer(const char* field, const std::string& what) {
  return {{{"consistency"}, {"periodic_averaging"}, {"outer"}, {field}},
          fmt::format("consistency: periodic_averaging.outer.{} {}", field, what)};
}

std::optional<FieldMisfit> misfit_of_type(const OuterOptimizer& outer) {
  std::vector<std::string_view> known;
  for (const math::RuleInfo& rule : math::rule_types()) {
    if (rule.norm == math::UpdateNorm::kNone) known.push_back(rule.name);
  }
  if (std::ranges::find(known, outer.type()) != known.end()) return std::nullopt;
  if (math::rule_of_type(outer.type())) {
    return misfit_of_outer("type",
                           fmt::format("is {}, which scales a worker's gradient by its norm; "
                                       "choose one of {}",
                                       outer.type(), fmt::join(known, ", ")));
  }
  return misfit_of_outer("type",
                         fmt::format("\"{}\" is unknown{}; choose one of {}", outer.type(),
                                     did_you_mean(outer.type(), known), fmt::join(known, ", ")));
}

/// A number of the outer rule: whether it is given, whether the type reads it, and its range.
struct Number {
  const char* field;
  bool is_given;
  bool is_read;
  double value;
  bool may_be_zero;  // and is then below 1
};

std::optional<FieldMisfit> misfit_of_numbers(const OuterOptimizer& outer) {
  const math::RuleInfo& rule = math::info_of(*math::rule_of_type(outer.type()));
  const std::array numbers{
      Number{"lr", outer.has_lr(), true, outer.lr(), false},
      Number{"momentum", outer.has_momentum(), rule.reads.momentum, outer.momentum(), true},
      Number{"momentum2", outer.has_momentum2(), rule.reads.momentum2, outer.momentum2(), true},
      Number{"delta", outer.has_delta(), rule.reads.delta, outer.delta(), false},
      Number{"rms_decay", outer.has_rms_decay(), rule.reads.rms_decay, outer.rms_decay(), true},
  };
  for (const Number& number : numbers) {
    if (number.is_given && !number.is_read) {
      return misfit_of_outer(number.field, fmt::format("is {}: type {} does not read it; omit it",
                                                       number.value, outer.type()));
    }
    const bool fits = number.may_be_zero ? number.value >= 0 && number.value < 1 : number.value > 0;
    if (fits && std::isfinite(number.value)) continue;
    return misfit_of_outer(number.field, fmt::format("is {}; it must be {}", number.value,
                                                     number.may_be_zero ? "at least 0 and below 1"
                                                                        : "greater than 0"));
  }
  return std::nullopt;
}

std::optional<FieldMisfit> misfit_of_buffer(const pb::Job& job) {
  const std::uint32_t buffer = job.consistency().periodic_averaging().outer().buffer();
  if (buffer == 0) return std::nullopt;
  if (buffer < 2 || buffer > kMaxBuffer) {
    return misfit_of_outer(
        "buffer", fmt::format("is {}; it must be from 2 to {} updates, or omitted: a step for each "
                              "update",
                              buffer, kMaxBuffer));
  }
  if (!is_bsp(job.consistency())) return std::nullopt;
  return misfit_of_outer(
      "buffer",
      fmt::format("is {}, but in BSP a step is made of all workers' updates of a meeting; "
                  "omit it, or choose mode: SSP or ASYNC",
                  buffer));
}

}  // namespace

bool is_bsp(const Consistency& consistency) {
  return consistency.mode() == Consistency::BSP ||
         (consistency.mode() == Consistency::SSP && consistency.slack() == 0 &&
          !consistency.has_dynamic_slack());
}

std::optional<std::string> misfit_of_reference_batch(const pb::Job& job) {
  // A worker that applies the rule does not know how many others do. With global_batch the items of
  // a clock are known without them.
  const std::int32_t batch = job.solver_param().lr_reference_batch();
  if (batch <= 0 || job.global_batch()) return std::nullopt;
  return fmt::format(
      "has each worker apply the rule, which cannot scale base_lr by the workers of a clock as "
      "lr_reference_batch: {} requires; omit that and scale base_lr, or give global_batch: true",
      batch);
}

std::optional<FieldMisfit> misfit_of_averaging(const pb::Job& job) {
  const Consistency& consistency = job.consistency();
  if (consistency.has_periodic_averaging() || consistency.has_elastic_averaging()) {
    if (const auto why = misfit_of_reference_batch(job)) {
      const char* const policy =
          consistency.has_periodic_averaging() ? "periodic_averaging" : "elastic_averaging";
      return FieldMisfit{{{"consistency"}, {policy}},
                         fmt::format("consistency: {} {}", policy, *why)};
    }
  }
  if (!consistency.has_periodic_averaging()) return std::nullopt;
  const pb::PeriodicAveraging& given = consistency.periodic_averaging();
  if (given.interval() < 1 || given.interval() > kMaxInterval) {
    return misfit("interval", fmt::format("is {}; it must be from 1 to {} clocks", given.interval(),
                                          kMaxInterval));
  }
  if (given.fragments() < 1 || given.fragments() > given.interval()) {
    return misfit("fragments", fmt::format("is {}; it must be from 1 to the interval, {}",
                                           given.fragments(), given.interval()));
  }
  if (job.external_members() && given.interval() % given.fragments() != 0) {
    return misfit("fragments",
                  fmt::format("is {}, by which the interval of {} cannot be divided; a clock of "
                              "external members is interval / fragments of their steps",
                              given.fragments(), given.interval()));
  }
  if (!given.has_outer()) return std::nullopt;
  if (auto found = misfit_of_type(given.outer())) return found;
  if (auto found = misfit_of_numbers(given.outer())) return found;
  return misfit_of_buffer(job);
}

Result<Averaging::Settings> to_periodic_averaging(const pb::Job& job) {
  if (const auto found = misfit_of_averaging(job)) return invalid(found->what);
  if (job.reduction() == pb::Job::SUM) {
    return invalid("consistency: periodic_averaging takes the mean; omit reduction: SUM");
  }
  const pb::PeriodicAveraging& given = job.consistency().periodic_averaging();
  Averaging::Settings settings;
  settings.exchange = Exchange::kPeriodic;
  settings.buffer = given.outer().buffer();
  settings.is_seeded = is_seeded(job);
  // A clock of external members is a meeting of one fragment.
  if (job.external_members()) {
    settings.schedule = {.interval = given.fragments(),
                         .fragments = given.fragments(),
                         .is_seeded = settings.is_seeded};
  } else {
    settings.schedule = {.interval = given.interval(),
                         .end = Clock(job.solver_param().max_iter()),
                         .fragments = given.fragments()};
  }
  return settings;
}

namespace {

/// Leaves clipping and momentum to the workers. Decay then has no velocity, so it is made as strong
/// as a velocity would make it eventually.
void descend_plainly(math::UpdateRule& rule) {
  rule.kind = math::RuleKind::kSgd;
  rule.weight_decay /= 1 - rule.momentum;
  rule.momentum = 0;
  rule.clip_norm = -1;
}

}  // namespace

Result<math::UpdateRule> to_shard_rule(const pb::Job& job) {
  const Consistency& consistency = job.consistency();
  if (!consistency.has_periodic_averaging() && !consistency.has_elastic_averaging()) {
    TAUT_TRY(math::UpdateRule rule, to_update_rule(job));
    if (workers_apply_momentum(job)) descend_plainly(rule);
    return rule;
  }
  if (const auto found = misfit_of_averaging(job)) return invalid(found->what);
  pb::SolverParameter solver;
  solver.set_type("SGD");
  solver.set_base_lr(1);
  if (consistency.periodic_averaging().has_outer()) {
    const OuterOptimizer& outer = consistency.periodic_averaging().outer();
    const math::RuleInfo& rule = math::info_of(*math::rule_of_type(outer.type()));
    solver.set_type(outer.type());
    solver.set_base_lr(outer.lr());
    if (rule.reads.momentum) solver.set_momentum(outer.momentum());
    solver.set_momentum2(outer.momentum2());
    solver.set_delta(outer.delta());
    solver.set_rms_decay(outer.rms_decay());
  }
  return to_update_rule(solver);
}

}  // namespace taut
