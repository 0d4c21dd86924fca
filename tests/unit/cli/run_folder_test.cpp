#include "cli/run_folder.hpp"

#include <filesystem>
#include <iterator>
#include <string>

#include "cli/run_origin.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut::cli {
namespace {

auto entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST_CASE("a resume line has the same options and the checkpoint", "[cli]") {
  CHECK(
      resume_line({"/build/bin/tautline", "train", "my job.textproto", "--slack", "2", "--output",
                   "runs/first", "--force", "--resume=old", "--straggler", "worker: 1 slowdown: 3"},
                  "/runs/first/checkpoints/net_iter_10") ==
      "tautline train 'my job.textproto' --slack 2 --straggler 'worker: 1 slowdown: 3' "
      "--resume /runs/first/checkpoints/net_iter_10");
  CHECK(shell_line({"it's", ""}) == "'it'\\''s' ''");
}

TEST_CASE("a run's origin names the command, the host and the folder", "[cli]") {
  const pb::RunOrigin origin = run_origin();
  REQUIRE(origin.command_size() > 0);
  CHECK_THAT(origin.command(0), Catch::Matchers::Contains("taut_test_cli"));
  CHECK(!origin.host().empty());
  CHECK(!origin.folder().empty());
}

TEST_CASE("a run's folder is not used twice unless by force", "[cli]") {
  const test::TempFolder folder;
  RunFolderOptions options;
  options.requested = folder.path() / "run";
  options.job_name = "tiny";
  REQUIRE(make_run_folder(options).has_value());
  REQUIRE(make_run_folder(options).has_value());
  folder.write("run/server0.textproto", "");
  folder.write("run/checkpoints/tiny_iter_9/manifest.textproto", "");
  const auto refused = make_run_folder(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message,
             Catch::Matchers::Contains((folder.path() / "run-2").string() + " is free"));
  RunFolderOptions force = options;
  force.force = true;
  force.keep = folder.path() / "run/checkpoints/tiny_iter_9";
  folder.write("run/notes.txt", "mine");
  REQUIRE(make_run_folder(force).has_value());
  CHECK(!has_run(folder.path() / "run"));
  CHECK(std::filesystem::exists(folder.path() / "run/notes.txt"));
  CHECK(std::filesystem::exists(force.keep));
  folder.write("run/server0.textproto", "");
  force.keep.clear();
  REQUIRE(make_run_folder(force).has_value());
  CHECK(!std::filesystem::exists(folder.path() / "run/checkpoints/tiny_iter_9"));
}

TEST_CASE("a run that is replaced by force leaves no file of a process", "[cli]") {
  const test::TempFolder folder;
  RunFolderOptions options;
  options.requested = folder.path() / "run";
  options.force = true;
  for (const char* mine : {"worker.log", "my-worker0.log", "coordinator", "notes"}) {
    folder.write(std::string("run/") + mine, "");
  }
  const auto own = entries(options.requested);
  for (const char* file : {"server0.textproto", "worker0.log", "worker0-2.log", "coordinator.log",
                           "coordinator.textproto", "node1-worker0.ready"}) {
    folder.write(std::string("run/") + file, "");
  }
  REQUIRE(make_run_folder(options).has_value());
  CHECK(entries(options.requested) == own);
}

}  // namespace
}  // namespace taut::cli
