#include <algorithm>
#include <cmath>
#include <set>

#include "cli/sweep/job_field.hpp"
#include "cli/sweep/sweep_plan.hpp"
#include "cli/sweep/vary.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

const std::string kJob =
    "name: 'j' workers: 2 seed: 5 consistency { mode: SSP slack: 3 } "
    "net_param { "
    "  layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } "
    "          include { phase: TRAIN } } "
    "  layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } "
    "          include { phase: TEST } } "
    "  layer { name: 'block.1/ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
    "          inner_product_param { num_output: 10 } } "
    "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } "
    "  layer { name: 'right' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'right' "
    "          include { phase: TEST } } } "
    "solver_param { base_lr: 0.1 max_iter: 10 test_iter: 2 test_interval: 5 stepvalue: 3 "
    "stepvalue: 6 } "
    "data { folder: '/nowhere' }";

template <class Message>
Message parsed(const std::string& text) {
  Message message;
  REQUIRE(parse_text(text, "text", message).has_value());
  return message;
}

pb::Job with(const std::string& path, const std::string& value) {
  pb::Job job = parsed<pb::Job>(kJob);
  const auto set = set_job_field(path, value, job);
  INFO((set ? std::string() : set.error().message));
  REQUIRE(set.has_value());
  return job;
}

std::string refusal_of(const std::string& path, const std::string& value = "1") {
  pb::Job job = parsed<pb::Job>(kJob);
  const auto set = set_job_field(path, value, job);
  CAPTURE(path, value);
  REQUIRE_FALSE(set.has_value());
  return set.error().message;
}

std::vector<Setting> settings(const std::string& sweep) {
  const auto found = settings_of(parsed<pb::Sweep>(sweep), parsed<pb::Job>(kJob));
  INFO((found ? std::string() : found.error().message));
  REQUIRE(found.has_value());
  return found.value();
}

std::string problem_of(const std::string& sweep) {
  const auto found = settings_of(parsed<pb::Sweep>(sweep), parsed<pb::Job>(kJob));
  CAPTURE(sweep);
  REQUIRE_FALSE(found.has_value());
  return found.error().message;
}

pb::SweepVary vary_of(const std::string& text) {
  const auto vary = parse_vary(text, "--vary");
  INFO((vary ? std::string() : vary.error().message));
  REQUIRE(vary.has_value());
  return vary.value();
}

}  // namespace

TEST_CASE("a field of a job is set by its path, whatever its type", "[sweep]") {
  CHECK(with("solver.base_lr", "0.025").solver_param().base_lr() == 0.025F);
  CHECK(with("solver_param.base_lr", "1e-3").solver_param().base_lr() == 1e-3F);
  CHECK(with("solver.max_iter", "77").solver_param().max_iter() == 77);
  CHECK(with("solver.type", "Adam").solver_param().type() == "Adam");
  CHECK(with("clock_time_ms", "2.5").clock_time_ms() == 2.5);
  CHECK(with("reduction", "SUM").reduction() == pb::Job::SUM);
  CHECK(with("global_batch", "true").global_batch());
  CHECK(with("consistency.staleness_exponent", "0.5").consistency().staleness_exponent() == 0.5F);
  // Of a list: one element, or the value alone.
  const pb::Job element = with("solver.stepvalue[1]", "8");
  CHECK(element.solver_param().stepvalue(0) == 3);
  CHECK(element.solver_param().stepvalue(1) == 8);
  const pb::Job alone = with("solver.stepvalue", "8");
  REQUIRE(alone.solver_param().stepvalue_size() == 1);
  CHECK(alone.solver_param().stepvalue(0) == 8);
  // Layers by name, that contain '.' and '/', or by number.
  for (const char* layer : {"block.1/ip", "2"}) {
    const pb::Job job =
        with("net.layer[" + std::string(layer) + "].inner_product_param.num_output", "32");
    CHECK(job.net_param().layer(2).inner_product_param().num_output() == 32);
  }
  CHECK(with("data.folder", "/there").data(0).folder() == "/there");
}

TEST_CASE("a field that a job does not have is refused with a guess", "[sweep]") {
  CHECK(refusal_of("solver.base_rl") ==
        "solver.base_rl: no field \"base_rl\" in SolverParameter; did you mean \"base_lr\"?");
  CHECK_THAT(refusal_of("slover.base_lr"), Contains("did you mean \"solver\"?"));
  CHECK_THAT(refusal_of("net.layer[blok.1/ip].type"), Contains("did you mean \"block.1/ip\"?"));
  CHECK_THAT(refusal_of("net.layer[in].type"),
             Contains("\"in\" is the name of several: layer[0], [1]; name one by its number"));
  CHECK_THAT(refusal_of("net.layer.type"), Contains("there are 5 \"layer\": name one"));
  CHECK_THAT(refusal_of("net.layer[9].type"), Contains("no layer \"9\"; there are 5"));
  CHECK_THAT(refusal_of("solver.stepvalue[2]"), Contains("has 2 elements, counted from 0"));
  CHECK_THAT(refusal_of("solver.base_lr[0]"), Contains("base_lr is not a list"));
  CHECK_THAT(refusal_of("solver.base_lr.x"), Contains("base_lr has no fields"));
  CHECK_THAT(refusal_of("consistency"), Contains("is a Consistency, name one of its fields"));
  CHECK_THAT(refusal_of("net.layer[in"), Contains("'[' has no ']'"));
  CHECK_THAT(refusal_of("solver..base_lr"), Contains("must be a field's path"));
  CHECK_THAT(refusal_of(""), Contains("must be a field's path"));
}

TEST_CASE("a value that a field cannot have is refused", "[sweep]") {
  CHECK(refusal_of("solver.base_lr", "fast") == "solver.base_lr: must be a number, is \"fast\"");
  CHECK_THAT(refusal_of("solver.base_lr", "nan"), Contains("must be a number"));
  CHECK_THAT(refusal_of("solver.max_iter", "1.5"), Contains("must be a whole number"));
  CHECK_THAT(refusal_of("restart", "-1"), Contains("a whole number from 0 to 4294967295, is"));
  CHECK_THAT(refusal_of("global_batch", "yes"), Contains("must be true or false"));
  CHECK_THAT(refusal_of("reduction", "sum"),
             Contains("did you mean \"SUM\"?; known are MEAN, SUM"));
}

TEST_CASE("a sweep's settings are every combination of the varied values", "[sweep]") {
  CHECK(settings("") == std::vector<Setting>{{}});
  CHECK(settings("vary { field: 'solver.base_lr' value: 0.01 value: 0.1 } "
                 "vary { field: 'solver.type' word: 'SGD' word: 'Adam' }") ==
        std::vector<Setting>{{"0.01", "SGD"}, {"0.01", "Adam"}, {"0.1", "SGD"}, {"0.1", "Adam"}});
  CHECK(settings("vary { field: 'solver.momentum' range { low: 0 high: 0.9 steps: 4 } }") ==
        std::vector<Setting>{{"0"}, {"0.3"}, {"0.6"}, {"0.9"}});
  CHECK(settings("vary { field: 'solver.base_lr' "
                 "range { low: 0.001 high: 0.1 steps: 3 logarithmic: true } }") ==
        std::vector<Setting>{{"0.001"}, {"0.01"}, {"0.1"}});
  // Whole numbers are rounded, and then each occurs once.
  CHECK(settings("vary { field: 'solver.iter_size' range { low: 1 high: 3 steps: 9 } }") ==
        std::vector<Setting>{{"1"}, {"2"}, {"3"}});
}

TEST_CASE("draws are different, follow from the seed, and more keep the fewer", "[sweep]") {
  const std::string vary =
      "vary { field: 'solver.base_lr' range { low: 1e-4 high: 1 logarithmic: true } } "
      "vary { field: 'solver.iter_size' range { low: 1 high: 4 } } "
      "vary { field: 'solver.type' word: 'SGD' word: 'Adam' } ";
  const auto many = settings(vary + "draws: 200");
  REQUIRE(many.size() == 200);
  CHECK(std::set<Setting>(many.begin(), many.end()).size() == 200);
  const auto few = settings(vary + "draws: 20");
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
  CHECK(settings(vary + "draws: 20 draw_seed: 2") != few);
  int below = 0;
  std::set<std::string> sizes;
  std::set<std::string> types;
  for (const Setting& setting : many) {
    const double rate = std::stod(setting[0]);
    CHECK((rate >= 1e-4 && rate <= 1));
    below += rate < 1e-2 ? 1 : 0;
    sizes.insert(setting[1]);
    types.insert(setting[2]);
  }
  // Half of a logarithmic range is below its geometric middle.
  CHECK((below > 70 && below < 130));
  CHECK(sizes == std::set<std::string>{"1", "2", "3", "4"});
  CHECK(types.size() == 2);
  // No more than there are.
  const std::string two = "vary { field: 'solver.type' word: 'SGD' word: 'Adam' } ";
  CHECK(settings(two + "draws: 2").size() == 2);
  CHECK_THAT(problem_of(two + "draws: 3"), Contains("more than there are different settings: 2"));
}

TEST_CASE("values that cannot be varied are refused, all at once", "[sweep]") {
  const std::string all = problem_of(
      "vary { field: 'solver.base_rl' value: 1 } vary { field: 'solver.type' range { low: 1 "
      "high: 2 steps: 2 } } vary { field: 'solver.momentum' } vary { field: 'solver.max_iter' "
      "value: 1.5 } vary { field: 'workers' value: 2 } vary { value: 1 }");
  for (const char* line :
       {"vary: solver.base_rl: no field \"base_rl\"", "vary: solver.type: has no numbers",
        "vary: solver.momentum: has no values", "vary: solver.max_iter: must be a whole number",
        "vary: workers: is an axis of the sweep by itself: use workers", "vary: has no field"}) {
    CHECK_THAT(all, Contains(line));
  }
  const std::string rate = "vary { field: 'solver.base_lr' ";
  CHECK_THAT(problem_of(rate + "value: 1 word: '2' }"), Contains("of several kinds"));
  CHECK_THAT(problem_of(rate + "value: 1 value: 1 }"), Contains("1 is given twice"));
  CHECK_THAT(problem_of(rate + "range { low: 2 high: 1 steps: 2 } }"),
             Contains("low must be less"));
  CHECK_THAT(problem_of(rate + "range { low: 0 high: 1 steps: 2 logarithmic: true } }"),
             Contains("greater than 0 where it is logarithmic"));
  CHECK_THAT(problem_of(rate + "range { low: 1 high: 2 } }"), Contains("requires steps"));
  CHECK_THAT(problem_of(rate + "range { low: 1 high: 2 steps: 1001 } }"), Contains("2 to 1000"));
  CHECK_THAT(problem_of("draws: 4"), Contains("nothing is varied"));
  CHECK_THAT(problem_of(rate + "value: 1 } draws: 0"), Contains("must be from 1 to 1000, is 0"));
  CHECK_THAT(problem_of(rate + "value: 1 } " + rate + "value: 2 }"), Contains("named twice"));
}

TEST_CASE("a command line's values are numbers, words, or the text of a file", "[sweep]") {
  const pb::SweepVary rates = vary_of("solver.base_lr=0.01,1e-1");
  CHECK(rates.field() == "solver.base_lr");
  REQUIRE(rates.value_size() == 2);
  CHECK(rates.value(1) == 0.1);
  const pb::SweepVary types = vary_of("solver.type=SGD,Adam");
  REQUIRE(types.word_size() == 2);
  CHECK(types.word(1) == "Adam");
  CHECK(vary_of("field: 'solver.base_lr' range { low: 1 high: 2 }").range().high() == 2);
  CHECK_THAT(parse_vary("solver.base_lr", "--vary").error().message,
             Contains("--vary: must be FIELD=VALUE,..."));
  CHECK_THAT(parse_vary("feild: 'x'", "--vary").error().message,
             Contains("did you mean \"field\"?"));
}

TEST_CASE("settings are compared where there is one bound, bounds where there are several",
          "[sweep]") {
  const std::string vary = "seeds: 1 vary { field: 'solver.base_lr' value: 0.01 value: 0.1 } ";
  const auto plan_of = [](const std::string& sweep) {
    const auto plan = plan_sweep(parsed<pb::Sweep>(sweep), parsed<pb::Job>(kJob));
    INFO((plan ? std::string() : plan.error().message));
    REQUIRE(plan.has_value());
    return plan.value();
  };
  const SweepPlan one = plan_of(vary);
  REQUIRE(one.points.size() == 2);
  CHECK(one.fields == std::vector<std::string>{"solver.base_lr"});
  CHECK(one.points[1].name() == "base_lr 0.1");
  CHECK(one.points[1].kind() == "setting");
  CHECK(one.points[0].group() == "slack 3, 2 workers");  // the job's own bound
  CHECK(one.points[0].group() == one.points[1].group());
  CHECK(one.runs[1].folder == "slack3-workers2-base_lr_0.1-seed5");
  CHECK(one.runs[1].job.solver_param().base_lr() == 0.1F);
  const SweepPlan several = plan_of(vary + "slack: '0' slack: 'async'");
  REQUIRE(several.points.size() == 4);
  CHECK(several.points[0].name() == "BSP");
  CHECK(several.points[0].group() == "2 workers, base_lr 0.01");
  CHECK(several.points[1].group() == several.points[0].group());
  CHECK(several.points[2].group() == "2 workers, base_lr 0.1");
  // A field of the consistency is put over every bound.
  const SweepPlan late = plan_of(
      "seeds: 1 slack: 'async' vary { field: 'consistency.staleness_exponent' value: 0.5 }");
  CHECK(late.runs[0].job.consistency().staleness_exponent() == 0.5F);
  CHECK(late.runs[0].job.consistency().mode() == pb::Consistency::ASYNC);
  // A value that a job cannot have is named with its point.
  const auto refused =
      plan_sweep(parsed<pb::Sweep>("vary { field: 'solver.momentum' value: 0.9 value: 1.5 }"),
                 parsed<pb::Job>(kJob));
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("momentum 1.5, slack 3, 2 workers: "));
  CHECK_THAT(refused.error().message, !Contains("momentum 0.9"));
}

TEST_CASE("fields that end alike are named by their paths", "[sweep]") {
  const auto names = short_names(parsed<pb::Sweep>(
      "vary { field: 'net.layer[a.b].inner_product_param.num_output' } vary { field: "
      "'net.layer[c].inner_product_param.num_output' } vary { field: 'solver.stepvalue[1]' }"));
  CHECK(names == std::vector<std::string>{"net.layer[a.b].inner_product_param.num_output",
                                          "net.layer[c].inner_product_param.num_output",
                                          "stepvalue[1]"});
}

}  // namespace taut::cli
