// Names of Kubernetes' objects, and the files that pods open.
#include "cli/manifest/manifest.hpp"

#include "cli/manifest/object_name.hpp"
#include "cli/manifest/pod_paths.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

pb::Job job_with(const std::string& more) {
  pb::Job job;
  const auto parsed = parse_text(
      "name: 'j' workers: 2 "
      "net_param { "
      "  layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } } "
      "  layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
      "          inner_product_param { num_output: 10 } } "
      "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } } "
      "solver_param { base_lr: 0.1 max_iter: 10 } " +
          more,
      "job", job);
  INFO((parsed ? std::string() : parsed.error().message));
  REQUIRE(parsed.has_value());
  return job;
}

ManifestOptions options_with(const std::string& data_claim, const std::string& runs_claim) {
  ManifestOptions options;
  options.name = "j";
  options.workers = 2;
  options.data_claim = data_claim;
  options.runs_claim = runs_claim;
  return options;
}

std::vector<std::string> folders(const ManifestOptions& options, pb::Job job) {
  settle_in_pods(options, job);
  const auto found = pod_folders(options, job);
  REQUIRE(found.has_value());
  return found.value();
}

std::vector<std::string> closed(const ManifestOptions& options, pb::Job job) {
  settle_in_pods(options, job);
  const auto found = closed_paths(options, job);
  REQUIRE(found.has_value());
  return found.value();
}

TEST_CASE("an object's name has a letter first, and a letter or a digit last", "[manifest]") {
  CHECK(object_name("My_Job") == "my-job");
  CHECK(object_name("3d") == "job-3d");
  CHECK(object_name("\xe6\xa8\xa1\xe5\x9e\x8b") == "job");
  CHECK(object_name("") == "job");
  CHECK(object_name("--a--") == "a");
  // Manifests name objects without quotes.
  CHECK(object_name("No") == "job-no");
  CHECK(object_name("null") == "job-null");
  CHECK(object_name("none") == "none");
  // Cut where a dash is the last.
  CHECK(object_name(std::string(39, 'a') + "-b") == std::string(39, 'a'));
  CHECK(object_name(std::string(35, '1') + "_23") == "job-" + std::string(35, '1'));
}

TEST_CASE("claims and namespaces have Kubernetes' own names", "[manifest]") {
  CHECK(is_claim_name("data.v2.mnist-1"));
  CHECK(is_claim_name("2024-mnist"));
  CHECK(is_claim_name(std::string(253, 'a')));
  CHECK_FALSE(is_claim_name(std::string(254, 'a')));
  for (const char* name : {"", "a..b", ".a", "a.", "-a", "a-", "a.-b", "A", "a_b", "a b"}) {
    INFO(name);
    CHECK_FALSE(is_claim_name(name));
  }
  CHECK(is_namespace_name("1team"));
  CHECK(is_namespace_name(std::string(63, 'a')));
  CHECK_FALSE(is_namespace_name(std::string(64, 'a')));
  CHECK_FALSE(is_namespace_name("a.b"));
}

TEST_CASE("without a claim pods may open the job's own data", "[manifest]") {
  const pb::Job job = job_with(
      "data { phase: TRAIN images: '/sets/a/images.gz' labels: '/sets/a/labels.gz' } "
      "data { phase: TEST folder: '/sets/b' }");
  CHECK(folders(options_with("", "runs"), job) == std::vector<std::string>{"/runs", "/sets/a"});
  CHECK(folders(options_with("claim", "runs"), job) == std::vector<std::string>{"/runs", "/data"});
  const auto files = pod_files(options_with("", "runs"), job);
  REQUIRE(files.has_value());
  for (const char* file : {"coordinator.textproto", "server.textproto", "worker.textproto"}) {
    CHECK_THAT(files.value().at(file), Contains("allowed_folders: \"/sets/a\""));
  }
}

TEST_CASE("a file that the job names and no pod opens is a warning", "[manifest]") {
  const pb::Job job = job_with(
      "data { folder: '/sets/b' } weights: '/home/a/w.safetensors' weights: '/data/w.caffemodel' "
      "resume: '/runs/checkpoints/j_iter_5'");
  CHECK(closed(options_with("claim", ""), job) ==
        std::vector<std::string>{"weights \"/home/a/w.safetensors\": pods open nothing outside of "
                                 "/runs, /data: put it on a claim, and name it there"});
  pb::Job relative = job_with("data { folder: 'sets' }");
  relative.mutable_net_param()->mutable_layer(0)->mutable_transform_param()->set_mean_file(
      "/database/mean.binaryproto");
  const auto lines = closed(options_with("", ""), relative);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Contains("data \"sets\""));
  CHECK_THAT(lines[1], Contains("mean_file \"/database/mean.binaryproto\""));
}

TEST_CASE("metrics of pods are on their loopback unless they are to be open", "[manifest]") {
  ManifestOptions options = options_with("claim", "runs");
  for (const bool is_open : {false, true}) {
    options.open_metrics = is_open;
    const auto files = pod_files(options, job_with(""));
    REQUIRE(files.has_value());
    for (const char* file : {"server.textproto", "worker.textproto"}) {
      const std::string& text = files.value().at(file);
      CHECK_THAT(text,
                 Contains(is_open ? "metrics: \"POD_IP:7680\"" : "metrics: \"127.0.0.1:7680\""));
      CHECK((text.find("insecure: true") != std::string::npos) == is_open);
    }
    CHECK_THAT(files.value().at("coordinator.textproto"), !Contains("insecure"));
    const auto text = manifests(options, job_with(""), nullptr);
    REQUIRE(text.has_value());
    CHECK((text.value().find("containerPort: 7680") != std::string::npos) == is_open);
    // A probe of a port that nothing outside of the pod reaches would end the pod again and again.
    CHECK((text.value().find("port: 7680") != std::string::npos) == is_open);
  }
}

TEST_CASE("on a claim the coordinator's state outlives its pod, and each run has its own",
          "[manifest]") {
  const auto on_claim = pod_files(options_with("", "runs"), job_with(""));
  REQUIRE(on_claim.has_value());
  CHECK_THAT(on_claim.value().at("coordinator.textproto"),
             Contains("state_folder: \"/runs/state/j-JOB_UID\""));
  const auto without = pod_files(options_with("", ""), job_with(""));
  REQUIRE(without.has_value());
  CHECK_THAT(without.value().at("coordinator.textproto"),
             Contains("state_folder: \"/var/lib/tautline/state\""));
}

}  // namespace
}  // namespace taut::cli
