#include "proto/config/settle_policies.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/math/update_rules.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "common/ssp/policies/delay_compensation.hpp"
#include "common/ssp/policies/dynamic_slack.hpp"
#include "common/ssp/policies/staleness_rate.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/settle_averaging.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

pb::Job job_of(const std::string& consistency) {
  pb::Job job;
  REQUIRE(parse_text("workers: 3 consistency { " + consistency + " }", "job", job));
  job.mutable_solver_param()->set_max_iter(100);
  return job;
}

Policies policies_of(const std::string& consistency) {
  const auto policies = to_policies(job_of(consistency));
  if (!policies) FAIL(policies.error().message);
  return policies.value();
}

std::string error_of(const std::string& consistency) {
  const auto policies = to_policies(job_of(consistency));
  REQUIRE_FALSE(policies.has_value());
  return policies.error().message;
}

}  // namespace

TEST_CASE("a job without a policy has none", "[policies]") {
  const Policies none = policies_of("mode: SSP slack: 2");
  CHECK(none.backup_workers() == 0);
  CHECK_FALSE(none.keeps().reads);
}

TEST_CASE("backup workers need BSP and at least one other worker", "[policies]") {
  CHECK(policies_of("mode: BSP backup_workers: 2").backup_workers() == 2);
  CHECK(policies_of("slack: 0 backup_workers: 1").backup_workers() == 1);
  CHECK(error_of("mode: BSP backup_workers: 3") ==
        "consistency: backup_workers 3 of 3 workers leave no worker; give at most 2");
  CHECK(error_of("slack: 1 backup_workers: 1") ==
        "consistency: backup_workers needs mode: BSP, not SSP");
  CHECK(error_of("mode: ASYNC backup_workers: 1") ==
        "consistency: backup_workers needs mode: BSP, not ASYNC");
  pb::Job all = job_of("mode: BSP backup_workers: 1");
  all.clear_workers();
  CHECK(to_policies(all).error().message ==
        "consistency: backup_workers 1 needs the job to say how many workers it has");
}

TEST_CASE("policies for late updates need a mode that has them", "[policies]") {
  CHECK(policies_of("slack: 2 staleness_learning_rate: true").find<StalenessRate>());
  CHECK(policies_of("mode: ASYNC staleness_learning_rate: true").keeps().reads);
  CHECK(error_of("mode: BSP staleness_learning_rate: true") ==
        "consistency: staleness_learning_rate needs mode: SSP or ASYNC; in BSP no update is late");
  CHECK(error_of("mode: BSP look_ahead: true") ==
        "consistency: look_ahead needs mode: SSP or ASYNC; in BSP no update is late");
  CHECK(error_of("slack: 0 delay_compensation {}") ==
        "consistency: delay_compensation needs mode: SSP or ASYNC; in BSP no update is late");
}

TEST_CASE("delay compensation has a strength above 0 and a decay below 1", "[policies]") {
  const Policies constant = policies_of("mode: ASYNC delay_compensation {}");
  REQUIRE(constant.find<DelayCompensation>());
  CHECK(constant.find<DelayCompensation>()->settings().strength == 0.04F);
  CHECK(constant.keeps().values);
  CHECK(constant.keeps().states == 0);
  CHECK(policies_of("mode: ASYNC delay_compensation { strength: 2 decay: 0.95 }").keeps().states ==
        1);
  CHECK(error_of("mode: ASYNC delay_compensation { strength: -1 }") ==
        "consistency: delay_compensation.strength is -1; it must be greater than 0");
  CHECK(error_of("mode: ASYNC delay_compensation { strength: inf }") ==
        "consistency: delay_compensation.strength is inf; it must be greater than 0");
  CHECK(error_of("mode: ASYNC delay_compensation { decay: 1 }") ==
        "consistency: delay_compensation.decay is 1; it must be at least 0 and below 1");
}

TEST_CASE("a moving slack has a range, and no fixed value", "[policies]") {
  const Policies moving = policies_of("dynamic_slack { least: 2 most: 9 }");
  REQUIRE(moving.find<DynamicSlackPolicy>());
  CHECK(moving.find<DynamicSlackPolicy>()->range().min == Slack(2));
  CHECK(moving.find<DynamicSlackPolicy>()->range().max == Slack(9));
  CHECK(moving.read_slack()->moving() == Slack(2));
  CHECK_FALSE(policies_of("slack: 2").read_slack()->moving());
  CHECK(error_of("slack: 3 dynamic_slack { least: 2 most: 9 }") ==
        "consistency: dynamic_slack moves the slack between 2 and 9 by itself; slack 3 cannot be "
        "given in addition");
  CHECK(error_of("mode: ASYNC dynamic_slack { least: 2 most: 9 }") ==
        "consistency: dynamic_slack needs mode: SSP, not ASYNC");
  const std::string range_error = "; it must start at 1 or more and end higher, at 1000 at most";
  CHECK(error_of("dynamic_slack { least: 0 most: 4 }") ==
        "consistency: dynamic_slack from 0 to 4" + range_error);
  CHECK(error_of("dynamic_slack { least: 4 most: 4 }") ==
        "consistency: dynamic_slack from 4 to 4" + range_error);
  CHECK(error_of("dynamic_slack { least: 4 most: 4000 }") ==
        "consistency: dynamic_slack from 4 to 4000" + range_error);
}

TEST_CASE("workers that train on their own push at the end of an interval and of the job",
          "[policies]") {
  const Policies periodic = policies_of("mode: BSP periodic_averaging { interval: 30 }");
  CHECK(periodic.find<Averaging>()->exchange() == Exchange::kPeriodic);
  CHECK(periodic.schedule().first_from(Clock(0)) == Clock(29));
  CHECK(periodic.schedule().first_from(Clock(90)) == Clock(99));
  const Policies elastic = policies_of("mode: ASYNC elastic_averaging { moving_rate: 0.1 }");
  CHECK(elastic.find<Averaging>()->exchange() == Exchange::kElastic);
  CHECK(elastic.find<Averaging>()->moving_rate() == 0.1F);
  CHECK(elastic.schedule().interval == 10);
}

TEST_CASE("averaging that cannot work is reported", "[policies]") {
  CHECK(error_of("slack: 2 periodic_averaging {}") ==
        "consistency: periodic_averaging needs mode: BSP, not SSP; with periodic_averaging { outer "
        "{} } it may be SSP");
  CHECK(error_of("mode: BSP periodic_averaging { interval: 0 }") ==
        "consistency: periodic_averaging.interval is 0; it must be from 1 to 1000000 clocks");
  CHECK(error_of("elastic_averaging { interval: 0 }") ==
        "consistency: elastic_averaging.interval is 0; it must be from 1 to 1000000 clocks");
  CHECK(error_of("elastic_averaging { moving_rate: 1.5 }") ==
        "consistency: elastic_averaging.moving_rate is 1.5; it must be between 0 and 1");
  CHECK(error_of("mode: BSP periodic_averaging {} backup_workers: 1") ==
        "consistency: periodic_averaging cannot be combined with backup_workers");
  CHECK(error_of("elastic_averaging {} staleness_learning_rate: true") ==
        "consistency: elastic_averaging cannot be combined with staleness_learning_rate");
  CHECK(error_of("elastic_averaging {} look_ahead: true") ==
        "consistency: elastic_averaging cannot be combined with look_ahead");
  CHECK(error_of("mode: BSP elastic_averaging {} periodic_averaging {}") ==
        "consistency: periodic_averaging cannot be combined with elastic_averaging");
  pb::Job sum = job_of("mode: BSP periodic_averaging {}");
  sum.set_reduction(pb::Job::SUM);
  CHECK(to_policies(sum).error().message ==
        "consistency: periodic_averaging takes the mean; omit reduction: SUM");
}

TEST_CASE("a reference batch is refused where each worker applies the rule", "[policies]") {
  const std::string why =
      " has each worker apply the rule, which cannot scale base_lr by the workers of a clock as "
      "lr_reference_batch: 256 requires; omit that and scale base_lr, or give global_batch: true";
  for (const std::string policy : {"periodic_averaging", "elastic_averaging"}) {
    pb::Job job = job_of("mode: BSP " + policy + " {}");
    CHECK_FALSE(misfit_of_averaging(job).has_value());
    job.mutable_solver_param()->set_lr_reference_batch(256);
    REQUIRE(misfit_of_averaging(job).has_value());
    CHECK(misfit_of_averaging(job)->what == "consistency: " + policy + why);
    CHECK(to_policies(job).error().message == "consistency: " + policy + why);
    job.set_global_batch(true);
    CHECK(to_policies(job).has_value());
  }
  for (const auto type : {pb::WorkerExchange::ALLREDUCE, pb::WorkerExchange::GOSSIP}) {
    pb::Job job;
    job.mutable_exchange()->set_type(type);
    settle_exchange(job);
    CHECK_FALSE(misfit_of_exchange(job).has_value());
    job.mutable_solver_param()->set_lr_reference_batch(256);
    REQUIRE(misfit_of_exchange(job).has_value());
    CHECK(misfit_of_exchange(job)->what ==
          "exchange: " + pb::WorkerExchange::Type_Name(type) + why);
    job.set_global_batch(true);
    CHECK_FALSE(misfit_of_exchange(job).has_value());
  }
  pb::Job served = job_of("mode: BSP");
  served.mutable_solver_param()->set_lr_reference_batch(256);
  CHECK_FALSE(misfit_of_averaging(served).has_value());
  CHECK_FALSE(misfit_of_exchange(served).has_value());
}

TEST_CASE("an outer rule is for every mode, and goes with scales of late updates", "[policies]") {
  for (const std::string mode : {"mode: BSP", "slack: 2", "mode: ASYNC"}) {
    const Policies outer = policies_of(mode + " periodic_averaging { interval: 30 outer {} }");
    CHECK(outer.find<Averaging>()->exchange() == Exchange::kPeriodic);
    CHECK(outer.schedule().interval == 30);
  }
  const Policies buffered = policies_of(
      "mode: ASYNC staleness_exponent: 0.5 periodic_averaging { outer { type: \"SGD\" buffer: 3 } "
      "}");
  CHECK(buffered.find<Averaging>()->buffer() == 3);
  CHECK(buffered.keeps().reads);
  CHECK(
      policies_of("mode: BSP periodic_averaging { fragments: 4 outer {} }").schedule().fragments ==
      4);
}

TEST_CASE("the shards' rule is the outer one, plain SGD or the solver's", "[policies]") {
  pb::Job job = job_of("mode: BSP periodic_averaging { outer {} }");
  job.mutable_solver_param()->set_type("AdamW");
  job.mutable_solver_param()->set_weight_decay(0.1F);
  const math::UpdateRule outer = to_shard_rule(job).value();
  CHECK(outer.kind == math::RuleKind::kNesterov);
  CHECK(outer.rate.base == 0.7F);
  CHECK(outer.momentum == 0.9F);
  CHECK(outer.weight_decay == 0);
  job.mutable_consistency()->mutable_periodic_averaging()->clear_outer();
  const math::UpdateRule mean = to_shard_rule(job).value();
  CHECK(mean.kind == math::RuleKind::kSgd);
  CHECK(mean.rate.base == 1);
  job.mutable_consistency()->clear_periodic_averaging();
  CHECK(to_shard_rule(job).value().kind == math::RuleKind::kAdamW);
}

TEST_CASE("an outer rule that cannot work is reported", "[policies]") {
  const auto outer_error = [](const std::string& outer) {
    const std::string error =
        error_of("mode: ASYNC periodic_averaging { outer { " + outer + " } }");
    const std::string where = "consistency: periodic_averaging.outer.";
    REQUIRE(error.starts_with(where));
    return error.substr(where.size());
  };
  std::vector<std::string_view> known;
  for (const math::RuleInfo& rule : math::rule_types()) {
    if (rule.norm == math::UpdateNorm::kNone) known.push_back(rule.name);
  }
  REQUIRE(known.size() > 5);
  const std::string types = fmt::format("choose one of {}", fmt::join(known, ", "));
  CHECK(outer_error("type: \"nestrov\"") ==
        "type \"nestrov\" is unknown; did you mean \"Nesterov\"?; " + types);
  CHECK(outer_error("type: \"LARS\"") ==
        "type is LARS, which scales a worker's gradient by its norm; " + types);
  CHECK(outer_error("lr: 0") == "lr is 0; it must be greater than 0");
  CHECK(outer_error("lr: inf") == "lr is inf; it must be greater than 0");
  CHECK(outer_error("momentum: 1") == "momentum is 1; it must be at least 0 and below 1");
  CHECK(outer_error("type: \"Adam\" delta: 0") == "delta is 0; it must be greater than 0");
  CHECK(outer_error("momentum2: 0.5") ==
        "momentum2 is 0.5: type Nesterov does not read it; omit it");
  CHECK(outer_error("type: \"RMSProp\" momentum: 0.5") ==
        "momentum is 0.5: type RMSProp does not read it; omit it");
  CHECK(outer_error("buffer: 1") ==
        "buffer is 1; it must be from 2 to 1000 updates, or omitted: a step for each update");
  CHECK(error_of("mode: BSP periodic_averaging { outer { buffer: 2 } }") ==
        "consistency: periodic_averaging.outer.buffer is 2, but in BSP a step is made of all "
        "workers' updates of a meeting; omit it, or choose mode: SSP or ASYNC");
  CHECK(error_of("mode: BSP periodic_averaging { fragments: 11 }") ==
        "consistency: periodic_averaging.fragments is 11; it must be from 1 to the interval, 10");
  for (const std::string other : {"dynamic_slack { least: 1 most: 3 }", "look_ahead: true",
                                  "delay_compensation {}", "elastic_averaging {}"}) {
    CHECK_THAT(error_of(other + " periodic_averaging { outer {} }"),
               Catch::Matchers::Contains("cannot be combined with"));
  }
}
