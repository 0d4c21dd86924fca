// The array job of a sweep: its script, and what Slurm says of its tasks.
#include "cli/sweep/slurm_array.hpp"

#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {

TEST_CASE("numbers of runs become ranges", "[sweep]") {
  CHECK(array_ranges({}).empty());
  CHECK(array_ranges({4}) == "4");
  CHECK(array_ranges({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
}

TEST_CASE("the script runs one run of the folder's sweep in each task", "[sweep]") {
  const std::string script = array_script({.name = "sweep-slacks",
                                           .program = "/opt/it's/tautline",
                                           .folder = "/shared/runs/slacks",
                                           .runs = {0, 1, 5},
                                           .at_once = 2,
                                           .processors = 4,
                                           .options = {}});
  CHECK_THAT(script, Contains("#SBATCH --cpus-per-task=4\n"));
  CHECK_THAT(script, Contains("exec '/opt/it'\\''s/tautline' sweep --output '/shared/runs/slacks' "
                              "--task \"$SLURM_ARRAY_TASK_ID\"\n"));
}

TEST_CASE("what the sweep relies on holds over the options of the user", "[sweep]") {
  const auto arguments = submit_arguments({.name = "sweep-slacks",
                                           .program = "/opt/tautline",
                                           .folder = "/shared/my runs/50%",
                                           .runs = {0, 1, 5},
                                           .at_once = 2,
                                           .processors = 4,
                                           .options = {"--job-name=mine", "--partition=gpu"}},
                                          "/shared/my runs/50%/slurm.sbatch");
  // One word each, so that no shell and no #SBATCH line parts them; '%' begins a placeholder.
  CHECK(arguments == std::vector<std::string>{"--parsable", "--job-name=mine", "--partition=gpu",
                                              "--job-name=sweep-slacks", "--array=0-1,5%2",
                                              "--output=/shared/my runs/50%%/slurm-%A_%a.out",
                                              "/shared/my runs/50%/slurm.sbatch"});
}

TEST_CASE("the state of a task is that of the job in which it lives", "[sweep]") {
  const auto states = task_states(
      "0 COMPLETED\n"
      "1 FAILED\n"
      "3 RUNNING\n"
      "N/A PENDING\n"
      "garbage\n"
      "4\n"
      "1 PENDING\n"
      "3 FAILED\n");
  REQUIRE(states.size() == 3);
  CHECK(states.at(0) == "COMPLETED");
  CHECK(states.at(1) == "PENDING");
  CHECK(states.at(3) == "RUNNING");
  CHECK(has_ended("NODE_FAIL"));
  CHECK_FALSE(has_ended("REQUEUED"));
  CHECK_FALSE(has_ended("COMPLETING"));
}

}  // namespace taut::cli
