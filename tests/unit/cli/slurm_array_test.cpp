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
  CHECK_THAT(script, Contains("#SBATCH --array=0-1,5%2\n"));
  CHECK_THAT(script, Contains("#SBATCH --cpus-per-task=4\n"));
  CHECK_THAT(script, Contains("exec '/opt/it'\\''s/tautline' sweep --output '/shared/runs/slacks' "
                              "--task \"$SLURM_ARRAY_TASK_ID\"\n"));
}

TEST_CASE("the state of a task is that of the job in which it lives", "[sweep]") {
  const auto states = task_states(
      "0 COMPLETED sweep-a\n"
      "1 FAILED sweep-a\n"
      "2 RUNNING sweep-b\n"
      "3 RUNNING sweep-a\n"
      "N/A PENDING sweep-a\n"
      "garbage\n"
      "1 PENDING sweep-a\n"
      "3 FAILED sweep-a\n",
      "sweep-a");
  REQUIRE(states.size() == 3);
  CHECK(states.at(0) == "COMPLETED");
  CHECK(states.at(1) == "PENDING");
  CHECK(states.at(3) == "RUNNING");
  CHECK(has_ended("NODE_FAIL"));
  CHECK_FALSE(has_ended("REQUEUED"));
  CHECK_FALSE(has_ended("COMPLETING"));
}

}  // namespace taut::cli
