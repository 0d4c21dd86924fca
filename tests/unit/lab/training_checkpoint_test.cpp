#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "common/files/sha256.hpp"
#include "lab/training/run_disk.hpp"
#include "lab/training/training_run.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/model/job/job.hpp"

namespace taut::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = R"(
name: "tiny" workers: 3 consistency { mode: SSP slack: 2 }
net_param {
  name: "n"
  layer { name: "in" type: "DummyData" top: "data" top: "label"
          dummy_data_param { shape { dim: 4 dim: 6 } shape { dim: 4 }
                             data_filler { type: "gaussian" std: 1 }
                             data_filler { type: "constant" value: 1 } } }
  layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
}
solver_param { base_lr: 0.1 momentum: 0.9 max_iter: 120 }
checkpoint { every: 40 keep: 0 }
)";

constexpr const char* kCluster = R"(
host { name: "s" workers: 0 servers: 1 link: "card" }
host { name: "w" count: 3 link: "card" }
link { name: "card" gbit_per_s: 0.01 latency_us: 50 jitter_us: 100 }
compute { clock_ms: 30 spread: LOGNORMAL deviation: 0.5 }
)";

TrainingOptions options_for(const std::string& more = "") {
  const test::TempFolder folder;
  folder.write("job.textproto", kJob);
  auto job = model::load_job(folder.path() / "job.textproto");
  if (!job) FAIL(job.error().message);
  auto cluster = parse_lab_cluster(kCluster + more, "cluster");
  if (!cluster) FAIL(cluster.error().message);
  TrainingOptions options;
  options.job = std::move(job.value());
  options.cluster = std::move(cluster.value());
  options.seed = 5;
  options.records.set_metrics(false);
  return options;
}

TrainingOutcome train(const TrainingOptions& options) {
  auto outcome = run_training(options);
  if (!outcome) FAIL(outcome.error().message);
  REQUIRE(outcome.value().job.state() == pb::DONE);
  return std::move(outcome.value());
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
