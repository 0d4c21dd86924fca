#include "lab/training/costs/calibrate.hpp"

#include "lab/training/costs/table_bytes.hpp"
#include "lab/training/training_run.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/model/job/job.hpp"

namespace taut::lab {
namespace {

constexpr const char* kCalibrated = R"(
name: "small" workers: 5 consistency { mode: SSP slack: 2 } straggler { worker: 0 slowdown: 4 }
net_param {
  name: "n"
  layer { name: "in" type: "DummyData" top: "data" top: "label"
          dummy_data_param { shape { dim: 4 dim: 60 } shape { dim: 4 }
                             data_filler { type: "gaussian" std: 1 }
                             data_filler { type: "constant" value: 1 } } }
  layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 30 weight_filler { type: "xavier" } } }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip" top: "ip2"
          inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
}
solver_param { base_lr: 0.1 max_iter: 300 }
)";

pb::Job job_of_file() {
  const test::TempFolder folder;
  folder.write("job.textproto", kCalibrated);
  auto job = model::load_job(folder.path() / "job.textproto");
  if (!job) FAIL(job.error().message);
  return std::move(job.value());
}

/// What a worker's clock takes in the lab of processors, with the costs of a cluster.
struct OfClock {
  double worker_us = 0;
  double server_us = 0;
  double layers_us = 0;
};

OfClock of_clock(const pb::LabCluster& cluster, std::uint32_t workers) {
  constexpr int kClocks = 400;
  TrainingOptions options;
  options.job = job_to_measure(job_of_file(), workers);
  options.job.mutable_solver_param()->set_max_iter(kClocks);
  options.cluster = cluster;
  options.learns = false;
  options.records.set_metrics(false);
  const auto outcome = run_training(options);
  if (!outcome) FAIL(outcome.error().message);
  OfClock clock;
  for (const pb::LabLayer& layer : cluster.compute().layer()) {
    clock.layers_us += layer.forward_us() + layer.backward_us();
  }
  const double clocks = kClocks * workers;
  clock.worker_us =
      clock.layers_us + cluster.compute().feed_us() + outcome.value().clients_us / clocks;
  clock.server_us = outcome.value().shards_us / clocks;
  return clock;
}

pb::LabCluster calibrated(const std::optional<ProcessTimes>& processes) {
  auto cluster = calibrate(job_of_file(), 1, processes);
  if (!cluster) FAIL(cluster.error().message);
  return std::move(cluster.value());
}

}  // namespace

TEST_CASE("a clock takes of processors what it took of real processes", "[lab]") {
  // More than a busy machine takes for the compute, which is measured; of far more, answers would
  // be late and asked for again.
  constexpr double kWorker_us = 20'000;
  constexpr double kServer_us = 9'000;
  for (const std::uint32_t workers : {1U, 3U}) {
    const pb::LabCluster cluster = calibrated(
        ProcessTimes{.workers = workers, .worker_us = kWorker_us, .server_us = kServer_us});
    const OfClock clock = of_clock(cluster, workers);
    CHECK(clock.worker_us == Approx(kWorker_us).epsilon(0.1));
    CHECK(clock.server_us == Approx(kServer_us).epsilon(0.1));
    // Messages take the rest: the compute is what was measured.
    CHECK(clock.layers_us < kWorker_us / 2);
  }
}

TEST_CASE("a calibration says how many bytes each table has, in comments", "[lab]") {
  const auto comment = table_bytes_comment(job_of_file());
  REQUIRE(comment.has_value());
  CHECK(comment.value() ==
        "# Tables of small, in bytes of float32:\n"
        "#   ip/weight: 7200\n#   ip/bias: 120\n#   ip2/weight: 360\n#   ip2/bias: 12\n"
        "#   together: 7692\n");
}

TEST_CASE("times of real processes that leave nothing for computing are refused", "[lab]") {
  const auto refusal = [](double worker_us, double server_us) {
    const auto cluster =
        calibrate(job_of_file(), 1,
                  ProcessTimes{.workers = 1, .worker_us = worker_us, .server_us = server_us});
    return cluster ? std::string() : cluster.error().message;
  };
  CHECK_THAT(refusal(0.01, 100), Catch::Matchers::Contains("nothing is left for computing"));
  CHECK_THAT(refusal(-3, 100), Catch::Matchers::Contains("too short to be told from other load"));
  CHECK_THAT(refusal(90'000, 0), Catch::Matchers::Contains("too short to be told from other load"));
}

TEST_CASE("a calibration has the codecs of the job, and what applying takes", "[lab]") {
  pb::Job job = job_of_file();
  CHECK(calibrated(std::nullopt).costs().codec_size() == 0);
  pb::PushCompression& push = *job.mutable_compression()->add_push();
  push.set_scheme(pb::PushCompression::INT8);
  push.set_min_values(1);
  pb::PullCompression& pull = *job.mutable_compression()->add_pull();
  pull.set_scheme(pb::PullCompression::FP16);
  pull.set_min_values(1);
  CHECK(!job_to_measure(job, 2).has_compression());
  const auto cluster = calibrate(job, 1, std::nullopt);
  if (!cluster) FAIL(cluster.error().message);
  const pb::LabCosts& costs = cluster.value().costs();
  CHECK(costs.apply_us_per_mib() > 0);
  REQUIRE(costs.codec_size() == 2);
  CHECK(costs.codec(0).name() == "INT8");
  CHECK(costs.codec(1).name() == "FP16");
  for (const pb::LabCodec& codec : costs.codec()) CHECK(codec.encode_us_per_mib() > 0);
  // Workers decode them. What INT8 costs a shard more than float32 does may be nothing.
  CHECK(costs.codec(1).decode_us_per_mib() > 0);
}

TEST_CASE("a job whose workers exchange among themselves is calibrated with servers", "[lab]") {
  pb::Job job = job_of_file();
  job.clear_consistency();
  job.clear_straggler();
  job.mutable_exchange()->set_type(pb::WorkerExchange::ALLREDUCE);
  settle_exchange(job);
  const auto cluster = calibrate(job, 1, std::nullopt);
  if (!cluster) FAIL(cluster.error().message);
  CHECK(cluster.value().costs().shard_message_us() > 0);
  CHECK(cluster.value().compute().layer_size() > 0);
}

TEST_CASE("messages of nearly one size cost each the same, whatever noise there is", "[lab]") {
  Meter::Samples samples;
  for (std::uint64_t i = 0; i < 80; ++i) {
    const bool is_late = i >= 70;
    samples.push_back(
        {.bytes = 1'000 + (is_late ? 40 : i % 3), .microseconds = is_late ? 30. : 9.});
  }
  const MessageCost cost = cost_of(samples);
  CHECK(cost.us_per_mib == 0);
  CHECK(cost.each_us == 9);
}

TEST_CASE("messages of a MiB cost what they take above small ones", "[lab]") {
  Meter::Samples samples;
  for (int i = 0; i < 60; ++i) samples.push_back({.bytes = 0, .microseconds = 8});
  for (int i = 0; i < 20; ++i) samples.push_back({.bytes = 1UL << 20U, .microseconds = 108});
  const MessageCost cost = cost_of(samples);
  CHECK(cost.us_per_mib == Approx(100));
  CHECK(cost.each_us == Approx(8));
}

TEST_CASE("a job is measured in lock-step, and without what is no cost", "[lab]") {
  const pb::Job job = job_to_measure(job_of_file(), 2);
  CHECK(job.workers() == 2);
  CHECK(job.consistency().mode() == pb::Consistency::BSP);
  CHECK(job.straggler_size() == 0);
  CHECK(job.solver_param().max_iter() == 300);
}

}  // namespace taut::lab
