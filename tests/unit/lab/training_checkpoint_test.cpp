#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "common/files/sha256.hpp"
#include "lab/training/run_disk.hpp"
#include "lab/training/training_run.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

namespace fs = std::filesystem;

TrainingOptions options_for(const std::string& more = "") {
  return tiny_training(
      "solver_param { base_lr: 0.1 momentum: 0.9 max_iter: 120 } checkpoint { every: 40 keep: 0 }",
      "compute { clock_ms: 30 spread: LOGNORMAL deviation: 0.5 }" + more);
}

TrainingOutcome train(const TrainingOptions& options) {
  TrainingOutcome outcome = run_to_end(options);
  REQUIRE(outcome.job.state() == pb::DONE);
  return outcome;
}

std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    contents[entry.path().lexically_relative(folder).string()] = read_file(entry.path()).value();
  }
  return contents;
}

/// As workers compute it.
std::string digest_of(const fs::path& checkpoint) {
  const auto saved = CheckpointReader::open_to_resume(checkpoint);
  if (!saved) FAIL(saved.error().message);
  Sha256 digest;
  for (const TableSpec& table : saved.value().tables()) {
    std::vector<float> values(table.count());
    REQUIRE(saved.value().read_values(table.id, 0, values).has_value());
    digest.update(std::as_bytes(std::span(values)));
  }
  return digest.finish();
}

}  // namespace

TEST_CASE("a training leaves the same checkpoints and times wherever its folder is", "[lab]") {
  const test::TempFolder folder;
  TrainingOptions options = options_for();
  options.folder = folder.path() / "a";
  const TrainingOutcome one = train(options);
  options.folder = folder.path() / "a-much-longer-name/than/the/first";
  const TrainingOutcome two = train(options);
  CHECK(one.job.SerializeAsString() == two.job.SerializeAsString());
  CHECK(one.virtual_s == two.virtual_s);
  CHECK(one.events == two.events);
  const auto saved = contents_of(folder.path() / "a");
  CHECK(saved.contains("checkpoints/tiny_iter_40/manifest.textproto"));
  CHECK(saved.contains("checkpoints/tiny_iter_120/shard0.safetensors"));
  CHECK(saved == contents_of(options.folder));
  REQUIRE(one.job.checkpoints_size() >= 2);
  const pb::KeptCheckpoint& last = one.job.checkpoints(one.job.checkpoints_size() - 1);
  CHECK(last.folder() == "checkpoints/tiny_iter_120");
  CHECK(last.clock() == 120);
  CHECK(digest_of(folder.path() / "a" / last.folder()) == one.job.parameters_sha256());
}

TEST_CASE("a training without a folder, or one that does not learn, saves nothing", "[lab]") {
  const test::TempFolder folder;
  TrainingOptions options = options_for();
  CHECK(train(options).job.checkpoints().empty());
  options.folder = folder.path() / "run";
  options.learns = false;
  CHECK(train(options).job.checkpoints().empty());
  CHECK_FALSE(fs::exists(options.folder));
}

TEST_CASE("a training continues from what another one has saved", "[lab]") {
  const test::TempFolder folder;
  TrainingOptions options = options_for();
  options.job.mutable_consistency()->set_mode(pb::Consistency::BSP);
  options.job.mutable_consistency()->clear_slack();
  options.folder = folder.path() / "whole";
  const TrainingOutcome whole = train(options);
  options.job.set_resume((options.folder / "checkpoints/tiny_iter_40").string());
  options.folder = folder.path() / "rest";
  const TrainingOutcome rest = train(options);
  CHECK(rest.job.parameters_sha256() == whole.job.parameters_sha256());
  CHECK(rest.virtual_s < whole.virtual_s);
  options.job.set_resume((folder.path() / "nothing").string());
  const auto refused = run_training(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Catch::Matchers::Contains("nothing"));
}

TEST_CASE("a checkpoint survives the loss of a worker's host, the same each time", "[lab]") {
  const test::TempFolder folder;
  TrainingOptions options =
      options_for("outage { host: 'w1' at_s: 1 back_s: 0.5 } control { heartbeat_limit_s: 0.5 }");
  options.folder = folder.path() / "one";
  const TrainingOutcome one = train(options);
  options.folder = folder.path() / "two";
  const TrainingOutcome two = train(options);
  REQUIRE(one.losses.size() == 1);
  CHECK(one.job.SerializeAsString() == two.job.SerializeAsString());
  CHECK(contents_of(folder.path() / "one") == contents_of(folder.path() / "two"));
  REQUIRE(!one.job.checkpoints().empty());
  const pb::KeptCheckpoint& last = one.job.checkpoints(one.job.checkpoints_size() - 1);
  CHECK(last.clock() == 120);
  CHECK(digest_of(folder.path() / "one" / last.folder()) == one.job.parameters_sha256());
}

TEST_CASE("a disk's paths are relative to its folder, however that is named", "[lab]") {
  for (const char* root : {"/tmp/run", "/tmp/run/"}) {
    CHECK(RunDisk(root).place_of("checkpoints/a") == "/tmp/run/checkpoints/a");
    CHECK(RunDisk(root).place_of("").empty());
  }
}

}  // namespace taut::lab
