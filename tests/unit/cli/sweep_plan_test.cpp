#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/sweep/prepare_run.hpp"
#include "cli/sweep/sweep_plan.hpp"
#include "cli/sweep/sweep_session.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

const std::string kJob =
    "name: 'j' workers: 2 seed: 5 "
    "net_param { "
    "  layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } } "
    "  layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
    "          inner_product_param { num_output: 10 } } "
    "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } "
    "  layer { name: 'right' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'right' "
    "          top: 'each' include { phase: TEST } } } "
    "solver_param { base_lr: 0.1 max_iter: 10 test_iter: 2 test_interval: 5 stepvalue: 3 "
    "stepvalue: 6 } "
    "data { folder: '/nowhere' }";

template <class Message>
Message parsed(const std::string& text) {
  Message message;
  REQUIRE(parse_text(text, "text", message).has_value());
  return message;
}

Result<SweepPlan> plan_of(const std::string& sweep) {
  return plan_sweep(parsed<pb::Sweep>(sweep), parsed<pb::Job>(kJob));
}

std::string refusal_of(const std::string& sweep) {
  const auto plan = plan_of(sweep);
  CAPTURE(sweep);
  REQUIRE_FALSE(plan.has_value());
  return plan.error().message;
}

/// The points of a sweep of a job whose workers sum among themselves, as it is loaded.
std::vector<SweepPoint> summing_points(const std::string& sweep) {
  pb::Job base = parsed<pb::Job>(kJob + " exchange { type: ALLREDUCE }");
  settle_exchange(base);
  REQUIRE(base.consistency().periodic_averaging().interval() == 100);
  auto plan = plan_sweep(parsed<pb::Sweep>("seeds: 1 " + sweep), base);
  INFO((plan ? std::string() : plan.error().message));
  REQUIRE(plan.has_value());
  return std::move(plan.value().points);
}

/// Clocks between two meetings.
std::uint32_t meeting_interval(const SweepPoint& point) {
  return point.job.consistency().periodic_averaging().interval();
}

}  // namespace

TEST_CASE("a sweep is every bound with every number of workers, variant and seed", "[sweep]") {
  const auto plan = plan_of(
      "slack: '0' slack: '3' slack: 'async' workers: 2 workers: 4 seeds: 2 "
      "variant { name: 'calm' } "
      "variant { name: 'one slow' job { straggler { worker: 1 slowdown: 3 } } }");
  REQUIRE(plan.has_value());
  CHECK(plan.value().points.size() == 12);
  REQUIRE(plan.value().runs.size() == 24);
  std::set<std::string> folders;
  for (const SweepRun& run : plan.value().runs) folders.insert(run.folder);
  CHECK(folders.size() == 24);
  CHECK(folders.contains("slack3-workers4-one_slow-seed6"));
  CHECK(folders.contains("async-workers2-calm-seed5"));
  CHECK(plan.value().runs[0].seed == 5);
  CHECK(plan.value().runs[12].seed == 6);
  const SweepPoint& last = plan.value().points[11];
  CHECK(last.bound() == "async");
  CHECK(last.group() == "4 workers, one slow");
  CHECK(last.job.consistency().mode() == pb::Consistency::ASYNC);
  CHECK(last.job.straggler_size() == 1);
  CHECK(last.job.workers() == 4);
  CHECK(plan.value().points[0].bound() == "BSP");
  CHECK(plan.value().points[0].job.consistency().mode() == pb::Consistency::BSP);
  CHECK(plan.value().points[1].job.consistency().slack() == 3);
  CHECK(plan.value().points[0].job.straggler_size() == 0);
}

TEST_CASE("clusters of the lab are an axis, named by their files", "[sweep]") {
  const test::TempFolder folder;
  const auto cluster = [&](const std::string& name, int hosts) {
    folder.write(name, fmt::format("host {{ name: 'h' count: {} servers: 1 link: 'card' }} "
                                   "link {{ name: 'card' gbit_per_s: 1 }} "
                                   "compute {{ clock_ms: 5 }}",
                                   hosts));
    return fmt::format("cluster: '{}' ", (folder.path() / name).string());
  };
  const std::string near = cluster("near.textproto", 4);
  const std::string far = cluster("far.textproto", 300);
  const auto plan = plan_of(near + far + "slack: '0' slack: '3' workers: 2 workers: 4 seeds: 1");
  if (!plan) FAIL(plan.error().message);
  CHECK(plan.value().is_in_lab);
  REQUIRE(plan.value().points.size() == 8);
  CHECK(plan.value().points[0].group() == "2 workers, near");
  CHECK(plan.value().points[7].group() == "4 workers, far");
  CHECK(plan.value().runs[0].folder == "slack0-workers2-near-seed5");
  CHECK(plan.value().runs[7].folder == "slack3-workers4-far-seed5");
  CHECK_THAT(plan.value().runs[0].cluster, Contains("count: 4"));
  CHECK_THAT(plan.value().runs[7].cluster, Contains("count: 300"));
  // One cluster is in no folder's name, as before there were several; more workers than processes.
  const auto one = plan_of(far + "slack: '0' workers: 300 seeds: 1");
  if (!one) FAIL(one.error().message);
  CHECK(one.value().runs[0].folder == "slack0-workers300-seed5");
  CHECK(one.value().points[0].group() == "300 workers, far");
  CHECK_FALSE(plan_of("workers: 2").value().is_in_lab);
  CHECK_THAT(refusal_of("workers: 300"),
             Contains("workers: must be from 1 to 256, is 300; the lab takes more"));
  CHECK_THAT(refusal_of(near + far + "workers: 2 workers: 5"),
             Contains("near.textproto: ") && Contains("places for 4 workers, 5 are requested"));
  CHECK_THAT(refusal_of(near + near), Contains("near.textproto is named twice"));
  folder.write("other/near.textproto", "host { }");
  const std::string same =
      fmt::format("cluster: '{}' ", (folder.path() / "other/near.textproto").string());
  CHECK_THAT(refusal_of(near + same), Contains("have the same name, near; rename one"));
  CHECK_THAT(refusal_of(same), Contains("near.textproto:1:1: a host has no name"));
}

TEST_CASE("a job of more workers than a machine's processes is refused where they are the axis",
          "[sweep]") {
  CHECK_THAT(refusal_of("slack: '0' over { workers: 257 }"),
             Contains("workers: must be from 1 to 256, is 257"));
  CHECK(plan_of("slack: '0' workers: 4 seeds: 1 over { workers: 257 }").has_value());
}

TEST_CASE("the runs of a job whose workers exchange have its meetings, as they are loaded",
          "[sweep]") {
  // A bound replaces the job's consistency, but the run's process would add the meetings again.
  const auto bound = summing_points("slack: '0'");
  REQUIRE(bound.size() == 1);
  CHECK(meeting_interval(bound[0]) == 100);
  CHECK(bound[0].job.consistency().mode() == pb::Consistency::BSP);
  const auto intervals = summing_points("vary { field: 'exchange.interval' value: 20 value: 100 }");
  REQUIRE(intervals.size() == 2);
  CHECK(meeting_interval(intervals[0]) == 20);
  CHECK(meeting_interval(intervals[1]) == 100);
  // Sums at the servers are no averages at intervals.
  const auto types =
      summing_points("vary { field: 'exchange.type' word: 'SERVERS' word: 'ALLREDUCE' }");
  REQUIRE(types.size() == 2);
  CHECK_FALSE(types[0].job.consistency().has_periodic_averaging());
  CHECK(meeting_interval(types[1]) == 100);
}

TEST_CASE("an exchange that overrides the job's brings its own meetings, whatever is varied",
          "[sweep]") {
  const std::string rates = " vary { field: 'solver.base_lr' value: 0.1 value: 0.2 }";
  const auto own = summing_points(rates);
  REQUIRE(own.size() == 2);
  CHECK(own[0].bound() == "BSP");
  CHECK(meeting_interval(own[0]) == 100);
  const auto shorter = summing_points("over { exchange { interval: 20 } }" + rates);
  REQUIRE(shorter.size() == 2);
  CHECK(meeting_interval(shorter[0]) == 20);
  CHECK(meeting_interval(shorter[1]) == 20);
  const auto at_servers = summing_points("over { exchange { type: SERVERS } }" + rates);
  REQUIRE(at_servers.size() == 2);
  CHECK_FALSE(at_servers[0].job.consistency().has_periodic_averaging());
  CHECK_FALSE(at_servers[1].job.consistency().has_periodic_averaging());
  // What the sweep itself asks for is not derived.
  const auto averaging = summing_points(
      "over { exchange { type: SERVERS } consistency { periodic_averaging { interval: 7 } } }" +
      rates);
  REQUIRE(averaging.size() == 2);
  CHECK(averaging[0].bound() == "own");
  CHECK(meeting_interval(averaging[0]) == 7);
}

TEST_CASE("a policy's averaging stays where the exchange is varied", "[sweep]") {
  const auto points = summing_points(
      "policy { name: 'local' consistency { mode: BSP periodic_averaging { interval: 100 } } } "
      "vary { field: 'exchange.type' word: 'SERVERS' word: 'ALLREDUCE' }");
  REQUIRE(points.size() == 2);
  CHECK(points[0].job.consistency().has_periodic_averaging());
  CHECK(meeting_interval(points[0]) == 100);
  CHECK(meeting_interval(points[1]) == 100);
}

TEST_CASE("policies are combined with the workers and seeds, in addition to the bounds",
          "[sweep]") {
  const auto plan = plan_of(
      "slack: '0' slack: '2' workers: 4 seeds: 2 "
      "policy { name: 'moving slack' consistency { dynamic_slack { least: 1 most: 6 } } } "
      "policy { name: 'backup' consistency { mode: BSP backup_workers: 1 } }");
  REQUIRE(plan.has_value());
  REQUIRE(plan.value().points.size() == 4);
  REQUIRE(plan.value().runs.size() == 8);
  const SweepPoint& moving = plan.value().points[2];
  CHECK(moving.bound() == "moving slack");
  CHECK(moving.group() == plan.value().points[0].group());
  CHECK(moving.job.consistency().dynamic_slack().most() == 6);
  CHECK_FALSE(moving.job.consistency().has_slack());
  CHECK(plan.value().runs[2].folder == "policy-moving_slack-workers4-seed5");
  CHECK(plan.value().runs[7].job.consistency().backup_workers() == 1);
  CHECK(plan.value().runs[7].job.seed() == 6);
  // The job's own consistency does not show through.
  CHECK(plan.value().points[3].job.consistency().mode() == pb::Consistency::BSP);
}

TEST_CASE("a sweep of policies alone has no other bounds", "[sweep]") {
  const auto plan = plan_of(
      "policy { name: 'late' consistency { mode: ASYNC "
      "staleness_learning_rate: true } } seeds: 1");
  REQUIRE(plan.has_value());
  CHECK(plan.value().points.size() == 1);
  CHECK(plan.value().runs[0].folder == "policy-late-workers2-seed5");
}

TEST_CASE("a policy that cannot work is named before anything runs", "[sweep]") {
  const std::string all = refusal_of(
      "policy { consistency { mode: BSP } } policy { name: '3' consistency { } } "
      "policy { name: 'async' consistency { } } policy { name: 'none' } "
      "policy { name: 'a b' consistency { } } policy { name: 'a/b' consistency { } }");
  for (const char* line : {"a policy has no name", "policy \"3\" is named like a slack",
                           "policy \"async\" is named like a slack",
                           "policy \"none\" has no consistency", "policy \"a/b\" is named twice"}) {
    CHECK_THAT(all, Contains(line));
  }
  CHECK_THAT(refusal_of("workers: 2 policy { name: 'spare' consistency { mode: BSP "
                        "backup_workers: 2 } }"),
             Contains("spare, 2 workers: consistency: backup_workers 2 of 2 workers"));
}

TEST_CASE("a sweep without settings has six bounds and three seeds of the job", "[sweep]") {
  const auto plan = plan_of("");
  REQUIRE(plan.has_value());
  CHECK(plan.value().points.size() == 6);
  CHECK(plan.value().runs.size() == 18);
  CHECK(plan.value().points[0].workers == 2);
}

TEST_CASE("fields that override a job replace its lists and keep the rest", "[sweep]") {
  pb::Job job = parsed<pb::Job>(kJob);
  put_fields_over(parsed<pb::Job>("solver_param { stepvalue: 9 max_iter: 20 } clock_time_ms: 7 "
                                  "network { loss: 0.1 }"),
                  job);
  CHECK(job.solver_param().stepvalue_size() == 1);
  CHECK(job.solver_param().stepvalue(0) == 9);
  CHECK(job.solver_param().max_iter() == 20);
  CHECK(job.solver_param().test_interval() == 5);
  CHECK(job.solver_param().base_lr() == Approx(0.1));
  CHECK(job.clock_time_ms() == 7);
  CHECK(job.network().loss() == 0.1);
  CHECK(job.data_size() == 1);
  CHECK(job.net_param().layer_size() == 4);
}

TEST_CASE("every value of a sweep that cannot work is named before anything runs", "[sweep]") {
  const std::string all = refusal_of(
      "slack: '-1' slack: 'fast' slack: '2' slack: '2' workers: 0 workers: 300 seeds: 0 "
      "target_accuracy: 1.5 limit_s: 0 memory_limit: 1 variant { } variant { name: 'v' job { "
      "workers: 3 } }");
  for (const char* line :
       {"or async, is \"-1\"", "or async, is \"fast\"", "slack 2 is named twice",
        "workers: must be from 1 to 256, is 0", "workers: must be from 1 to 256, is 300",
        "seeds: must be from 1 to 1000, is 0", "less than 1, e.g. 0.85, is 1.5",
        "limit_s: must be greater than 0, is 0",
        "memory_limit: is for runs in the lab; give its cluster, or omit it",
        "a variant has no name", "variant \"v\" sets"}) {
    CHECK_THAT(all, Contains(line));
  }
}

TEST_CASE("a sweep tests often enough to place its target", "[sweep]") {
  const auto interval = [](const std::string& solver) {
    const auto plan = plan_of("seeds: 1 over { solver_param { " + solver + " } }");
    REQUIRE(plan.has_value());
    CHECK(plan.value().points[0].job.solver_param().test_interval() ==
          plan.value().runs[0].job.solver_param().test_interval());
    return plan.value().points[0].job.solver_param().test_interval();
  };
  CHECK(interval("max_iter: 100 test_interval: 500") == 2);
  CHECK(interval("max_iter: 1000 test_interval: 0") == 25);
  CHECK(interval("max_iter: 10 test_interval: 5") == 1);
  // Twenty tests are enough, and fewer are too few.
  CHECK(interval("max_iter: 100 test_interval: 5") == 5);
  CHECK(interval("max_iter: 100 test_interval: 6") == 2);
}

TEST_CASE("a metric that a job's tests do not give is refused with those that they give",
          "[sweep]") {
  for (const char* name : {"accuracy", "loss", "right", "each[9]"}) {
    const auto plan = plan_of("metric: '" + std::string(name) + "'");
    INFO((plan ? std::string() : plan.error().message));
    REQUIRE(plan.has_value());
    CHECK(plan.value().metric.name == name);
    CHECK(plan.value().metric.higher_is_better == (std::string(name) != "loss"));
    CHECK(plan.value().metric.test_records == 8);
  }
  CHECK_THAT(refusal_of("metric: 'perplexity'"),
             Contains("the job's tests give no \"perplexity\"; choose one of: accuracy, loss, "
                      "each[0], each[1]"));
  CHECK_THAT(refusal_of("metric: 'each[10]'"), Contains("no \"each[10]\""));
  // Once, though no point of the six can give it.
  CHECK_THAT(refusal_of("metric: 'bogus'"), !Contains("\n"));
  const std::string without =
      "over { net_param { layer { name: 'in' type: 'Data' top: 'data' top: 'label' "
      "  data_param { batch_size: 4 } } "
      "  layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
      "          inner_product_param { num_output: 10 } } "
      "  layer { name: 'far' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'far' } } }";
  CHECK_THAT(refusal_of(without), Contains("no \"accuracy\"; choose one of: loss, far"));
  CHECK(plan_of(without + " metric: 'loss'").has_value());
}

TEST_CASE("a target is given once, and an accuracy's only for accuracies", "[sweep]") {
  CHECK_THAT(refusal_of("target: 0.8 target_accuracy: 0.8"), Contains("give one"));
  CHECK_THAT(refusal_of("metric: 'loss' target_accuracy: 0.8"), Contains("give target instead"));
  CHECK(plan_of("metric: 'loss' target: 0.3").has_value());
}

TEST_CASE("a point that its job cannot be is named with the reason", "[sweep]") {
  const std::string all =
      refusal_of("slack: '1' workers: 2 workers: 4 over { straggler { worker: 3 slowdown: 2 } }");
  CHECK_THAT(all, Contains("slack 1, 2 workers: straggler[0] names worker 3; the job has 2"));
  CHECK_THAT(all, !Contains("4 workers:"));
  CHECK_THAT(refusal_of("over { solver_param { max_iter: 0 } }"), Contains("max_iter"));
  CHECK_THAT(refusal_of("over { solver_param { lr_policy: 'unheard' } }"), Contains("unheard"));
  CHECK_THAT(refusal_of("slack: '0' over { net: 'other.prototxt' }"),
             Contains("BSP, 2 workers: net: a file cannot replace the job's net; give net_param"));
  // What only the coordinator would see of the run.
  const std::string exchange =
      refusal_of("slack: '0' slack: '2' seeds: 1 over { exchange { type: ALLREDUCE } }");
  CHECK_THAT(exchange, Contains("slack 2, 2 workers: exchange: ALLREDUCE is BSP among workers"));
  CHECK_THAT(exchange, !Contains("BSP, 2 workers:"));
  CHECK_THAT(refusal_of("slack: '2' seeds: 1 over { balance: true solver_param { type: 'Adam' } }"),
             Contains("slack 2, 2 workers: balance: solver type Adam"));
}

TEST_CASE("a run is done where its folder was prepared for its job, whose text it writes again",
          "[sweep]") {
  const auto plan = plan_of("slack: '0' workers: 2 seeds: 1 over { data { folder: 'near' } }");
  REQUIRE(plan.has_value());
  const SweepRun& run = plan.value().runs[0];
  const test::TempFolder folder;
  const auto place = folder.path() / run.folder;
  const auto prepared = prepare_run(place, run, Company());
  INFO((prepared ? std::string() : prepared.error().message));
  REQUIRE(prepared.has_value());
  CHECK_FALSE(is_done(place, run));
  pb::Job found = run.job;
  found.mutable_data(0)->set_folder("/somewhere/near");
  folder.write(run.folder + "/job.textproto", to_text(found));
  folder.write(run.folder + "/summary.json", "{\"state\": \"done\"}");
  CHECK(is_done(place, run));
  SweepRun other = run;
  other.job.mutable_solver_param()->set_base_lr(0.5F);
  CHECK_FALSE(is_done(place, other));
  // As an earlier version left it, the text says which job it was.
  folder.write(run.folder + "/run.json", "{}");
  CHECK_FALSE(is_done(place, run));
  folder.write(run.folder + "/job.textproto", to_text(run.job));
  CHECK(is_done(place, run));
}

TEST_CASE("more seeds keep every run's number, and more bounds do not", "[sweep]") {
  const auto before = plan_of("slack: '0' slack: '1' workers: 2 seeds: 2");
  const auto more_seeds = plan_of("slack: '0' slack: '1' workers: 2 seeds: 3");
  const auto more_bounds = plan_of("slack: '0' slack: '1' slack: '2' workers: 2 seeds: 2");
  const auto longer =
      plan_of("slack: '0' slack: '1' workers: 2 seeds: 2 over { solver_param { max_iter: 20 } }");
  REQUIRE((before && more_seeds && more_bounds && longer));
  CHECK(keeps_runs(before.value(), before.value()));
  CHECK(keeps_runs(before.value(), more_seeds.value()));
  CHECK_FALSE(keeps_runs(more_seeds.value(), before.value()));
  CHECK_FALSE(keeps_runs(before.value(), more_bounds.value()));
  CHECK_FALSE(keeps_runs(before.value(), longer.value()));
}

}  // namespace taut::cli
