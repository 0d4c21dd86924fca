#include <algorithm>
#include <string>
#include <vector>

#include "cli/job_options.hpp"
#include "cli/views/settings_text.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

namespace taut::cli {
namespace {

pb::Job job_of(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "text", job).has_value());
  return job;
}

pb::Consistency with_slack(const std::string& text, Slack slack) {
  pb::Job job = job_of(text);
  JobOptions options;
  options.slack = slack;
  put_over(options, job);
  return job.consistency();
}

bool holds(const std::vector<std::string>& lines, const std::string& line) {
  return std::ranges::find(lines, line) != lines.end();
}

}  // namespace

TEST_CASE("a slack is a number of clocks or async", "[cli]") {
  CHECK(parse_slack("0") == Slack(0));
  CHECK(parse_slack("4294967295") == Slack(4294967295));
  CHECK(parse_slack("async") == Slack::unbounded());
  for (const char* text : {"", "-1", "4294967296", "1.5", " 1", "1 ", "none", "ASYNC"}) {
    CHECK_FALSE(parse_slack(text));
  }
}

TEST_CASE("a slack chooses its mode, and only SSP keeps a number", "[cli]") {
  const std::string bounded = "consistency { mode: SSP slack: 2 }";
  CHECK(with_slack(bounded, Slack(0)).mode() == pb::Consistency::BSP);
  CHECK_FALSE(with_slack(bounded, Slack(0)).has_slack());
  CHECK(with_slack(bounded, Slack::unbounded()).mode() == pb::Consistency::ASYNC);
  CHECK_FALSE(with_slack(bounded, Slack::unbounded()).has_slack());
  CHECK(with_slack("consistency { mode: BSP }", Slack(7)).mode() == pb::Consistency::SSP);
  CHECK(with_slack("consistency { mode: BSP }", Slack(7)).slack() == 7);
}

TEST_CASE("a seed on the command line supersedes the job's and the solver's", "[cli]") {
  pb::Job job = job_of("seed: 3 solver_param { random_seed: 3 }");
  JobOptions options;
  options.seed = 9;
  put_over(options, job);
  CHECK(job.seed() == 9);
  CHECK_FALSE(job.solver_param().has_random_seed());
}

TEST_CASE("absent options leave a job unchanged", "[cli]") {
  const pb::Job before = job_of("workers: 2 seed: 3 straggler { delay_ms: 1 } weights: 'a'");
  pb::Job job = before;
  put_over(JobOptions(), job);
  CHECK(to_text(job) == to_text(before));
}

TEST_CASE("settings are shown with their origin: flag, file or default", "[cli]") {
  const pb::Job file = job_of("name: 'j' workers: 2 solver_param { stepvalue: 3 stepvalue: 6 }");
  pb::Job effective = file;
  effective.set_workers(4);
  effective.mutable_solver_param()->set_stepvalue(1, 7);
  const auto lines =
      settings_text(effective, file, [](const std::string& field) { return "job:1 " + field; });
  CHECK(holds(lines, "name: \"j\"                                         # job:1 name"));
  CHECK(holds(lines, "workers: 4                                        # flag"));
  CHECK(holds(lines,
              "  stepvalue: 3                                    # job:1 "
              "solver_param.stepvalue[0]"));
  CHECK(holds(lines, "  stepvalue: 7                                    # flag"));
  CHECK(holds(lines, "  momentum: 0                                     # default"));
}

}  // namespace taut::cli
