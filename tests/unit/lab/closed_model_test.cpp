#include "lab/training/costs/closed_model.hpp"

#include <string>
#include <utility>
#include <vector>

#include "lab/training/costs/scaling.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"
#include "tests/unit/model/net_text.hpp"

namespace taut::lab {
namespace {

model::Graph one_layer(std::int64_t parameters) {
  model::Graph graph;
  graph.name = "one";
  graph.nodes.emplace_back().definition.set_name("only");
  TableSpec& table = graph.parameters.emplace_back();
  table.id = TableId(0);
  table.name = "only";
  table.shape = {parameters};
  return graph;
}

ClosedEstimate estimate_of(const model::Graph& graph, const std::string& compute,
                           std::uint32_t workers, Slack slack, const std::string& of_host = "",
                           const pb::Job& job = {}, const std::string& costs = "",
                           const std::string& latency_us = "0") {
  const auto cluster = parse_lab_cluster(
      "host { name: \"s\" cores: 4 workers: 0 servers: 1 link: \"card\" }"
      "host { name: \"w\" count: 8 cores: 2 workers: 4 link: \"card\"" +
          of_host +
          "}"
          "link { name: \"card\" gbit_per_s: 8 latency_us: " +
          latency_us +
          "}"
          "costs { shard_message_us: 0 shard_us_per_mib: 0 client_message_us: 0 client_us_per_mib: "
          "0 " +
          costs +
          "}"
          "compute {" +
          compute + "}",
      "cluster");
  if (!cluster) FAIL(cluster.error().message);
  const auto topology = Topology::make(cluster.value(), 1, workers, 1);
  REQUIRE(topology.has_value());
  const auto estimated =
      closed_estimate(cluster.value(), *topology.value(), graph, 64, 1, workers, slack, job);
  REQUIRE(estimated.has_value());
  return estimated.value();
}

ClosedEstimate estimate(const std::string& compute, std::uint32_t workers, Slack slack,
                        std::int64_t parameters = 10, const std::string& of_host = "",
                        const pb::Job& job = {}, const std::string& costs = "") {
  return estimate_of(one_layer(parameters), compute, workers, slack, of_host, job, costs);
}

/// Of one worker and of two, whose batch of 4 records takes 200 ms; each is trained too.
std::vector<ScalingPoint> plan_of(const std::string& job) {
  const TrainingOptions tiny = tiny_training(job, "compute { clock_ms: 200 batch: 4 }");
  ScalingOptions options;
  options.job = tiny.job;
  options.cluster = tiny.cluster;
  options.workers = {1, 2};
  options.checks = true;
  auto points = plan_scaling(options);
  if (!points) FAIL(points.error().message);
  return std::move(points.value());
}

}  // namespace

TEST_CASE("a worker alone takes what its computing takes", "[lab]") {
  const ClosedEstimate one = estimate("clock_ms: 20 spread: LOGNORMAL", 1, Slack(0));
  CHECK(one.compute_ms == Approx(20));
  CHECK(one.spread_ms == 0);
  CHECK(one.limit == "compute");
}

TEST_CASE("four workers on two cores take twice as long", "[lab]") {
  CHECK(estimate("clock_ms: 20", 8, Slack(0)).compute_ms == Approx(20));
  CHECK(estimate("clock_ms: 20", 32, Slack(0)).compute_ms == Approx(40));
}

TEST_CASE("workers take turns on the devices of a host, not on its cores", "[lab]") {
  const auto compute_ms = [](std::uint32_t workers, const std::string& devices) {
    return estimate("clock_ms: 20", workers, Slack(0), 10, devices).compute_ms;
  };
  CHECK(compute_ms(32, " devices: 4") == Approx(20));
  CHECK(compute_ms(24, " devices: 2") == Approx(40));
  CHECK(compute_ms(32, " devices: 3") == Approx(40));
}

TEST_CASE("more workers that wait for each other wait longer, slack and ASYNC make it less",
          "[lab]") {
  const std::string compute = "clock_ms: 20 spread: LOGNORMAL deviation: 0.3";
  const double two = estimate(compute, 2, Slack(0)).spread_ms;
  const double eight = estimate(compute, 8, Slack(0)).spread_ms;
  CHECK(two > 1);
  CHECK(eight > two);
  CHECK(estimate(compute, 8, Slack(3)).spread_ms < eight);
  CHECK(estimate(compute, 8, Slack::unbounded()).spread_ms == 0);
}

TEST_CASE("the mean of the larger of two uniform halves is what order statistics say", "[lab]") {
  // A burst in half of the clocks, three times as long: 0.5 or 1.5 of the mean with probability a
  // half each, so the larger of two is 1.5 three times in four.
  pb::LabCompute compute;
  compute.set_spread(pb::LabCompute::BURSTS);
  compute.set_burst_clocks(1);
  compute.set_burst_share(0.5);
  CHECK(mean_under_bound(compute, 2, 1, Slack(0)) == Approx(1.25).margin(0.1));
  CHECK(mean_under_bound(compute, 1, 1, Slack(0)) == 1);
}

TEST_CASE("a worker begins a clock once all have ended those that it may not be ahead of",
          "[lab]") {
  pb::LabCompute compute;
  compute.set_spread(pb::LabCompute::LOGNORMAL);
  compute.set_deviation(0.5);
  const auto mean = [&](std::int64_t interval, Slack slack) {
    return mean_under_bound(compute, 64, interval, slack);
  };
  // Lognormal with a deviation of a half: the largest of 64 is 2.8 times the mean, and 64 workers
  // in the lab took 1.37 times it under a slack of 2 (docs/TUTORIAL.md, section 6).
  CHECK(mean(1, Slack(0)) == Approx(2.77).margin(0.15));
  CHECK(mean(1, Slack(2)) == Approx(1.34).margin(0.05));
  CHECK(mean(1, Slack(1)) > mean(1, Slack(2)));
  CHECK(mean(1, Slack::unbounded()) == 1);
  // Sums of four clocks spread half as far.
  CHECK(mean(4, Slack(0)) < mean(1, Slack(0)));
  CHECK(mean(4, Slack(0)) > mean(4, Slack(1)));
}

TEST_CASE("workers that average wait for their neighbours alone", "[lab]") {
  pb::LabCompute compute;
  compute.set_spread(pb::LabCompute::LOGNORMAL);
  compute.set_deviation(0.4);
  const double ring = mean_with_neighbours(compute, 16, collective::Graph::kRing);
  CHECK(ring > 1.02);
  // Each may be a clock ahead of its neighbours, and farther ahead of those beyond.
  CHECK(ring < mean_under_bound(compute, 16, 1, Slack(1)));
  CHECK(ring < mean_with_neighbours(compute, 16, collective::Graph::kHypercube));
  CHECK(mean_with_neighbours(compute, 1, collective::Graph::kRing) == 1);
}

TEST_CASE("the round trip of the first layer adds the latency of each link on its way", "[lab]") {
  // The worker's card and the server's, there and back.
  const auto far = estimate_of(one_layer(10), "clock_ms: 20", 2, Slack(0), "", {}, "", "1000");
  CHECK(far.exposed_ms == Approx(4).epsilon(0.01));
  CHECK(far.clock_ms == Approx(24).epsilon(0.01));
  CHECK(estimate("clock_ms: 20", 2, Slack(0)).exposed_ms < 0.01);
}

TEST_CASE("a server's card is the limit where all bytes pass it", "[lab]") {
  // 4 MB each way for 8 workers at 1000 bytes a microsecond.
  const ClosedEstimate one = estimate("clock_ms: 1", 8, Slack(0), 1'000'000);
  CHECK(one.network_ms == Approx(32).epsilon(0.01));
  CHECK(one.clock_ms == Approx(32).epsilon(0.01));
  CHECK(one.limit == "network");
}

TEST_CASE("compression has fewer bytes pass, each way by its scheme", "[lab]") {
  pb::Job job;
  const auto one = [&job] { return estimate("clock_ms: 1", 8, Slack(0), 1'000'000, "", job); };
  job.mutable_compression()->add_push()->set_scheme(pb::PushCompression::INT8);
  // The values still pass the server's card as they are.
  CHECK(one().network_ms == Approx(32).epsilon(0.01));
  job.mutable_compression()->add_pull()->set_scheme(pb::PullCompression::INT8);
  CHECK(one().network_ms == Approx(8).epsilon(0.02));
  const auto coded =
      estimate("clock_ms: 1", 8, Slack(0), 1UL << 18U, "", job,
               "codec { name: \"INT8\" encode_us_per_mib: 300 decode_us_per_mib: 200 }");
  // Each worker's update is decoded, and one version of the values encoded.
  CHECK(coded.server_ms == Approx(8 * 0.2 + 0.3));
}

TEST_CASE("a plan of a compression that is yet to be chosen is refused", "[lab]") {
  ScalingOptions options;
  options.job.mutable_compression()->add_push()->set_scheme(pb::PushCompression::AUTO);
  CHECK_THAT(plan_scaling(options).error().message,
             Catch::Matchers::StartsWith("compression: AUTO is chosen"));
}

TEST_CASE("a plan divides the batch of a job with global_batch over the workers", "[lab]") {
  const auto points = plan_of("global_batch: true solver_param { base_lr: 0.1 max_iter: 50 }");
  REQUIRE(points.size() == 2);
  CHECK(points[0].estimate.compute_ms == Approx(200));
  CHECK(points[1].estimate.compute_ms == Approx(100));
  for (const ScalingPoint& point : points) {
    CHECK(point.records_per_s == Approx(4e3 / point.estimate.clock_ms));
    CHECK(point.lab_ms.value() == Approx(point.estimate.clock_ms).epsilon(0.05));
  }
}

TEST_CASE("a plan's clock computes as many batches as a clock has", "[lab]") {
  const auto points = plan_of("solver_param { base_lr: 0.1 max_iter: 50 iter_size: 3 }");
  REQUIRE(points.size() == 2);
  for (const ScalingPoint& point : points) {
    CHECK(point.estimate.compute_ms == Approx(600));
    CHECK(point.records_per_s == Approx(1e3 * point.workers * 4 * 3 / point.estimate.clock_ms));
    CHECK(point.lab_ms.value() == Approx(point.estimate.clock_ms).epsilon(0.05));
  }
}

TEST_CASE("a plan trains fewer workers than the job's min_workers and stragglers name", "[lab]") {
  const auto points = plan_of(
      "solver_param { base_lr: 0.1 max_iter: 50 } min_workers: 2"
      " straggler { worker: 1 delay_ms: 300 } straggler { worker: [0, 1] delay_ms: 100 }");
  REQUIRE(points.size() == 2);
  // Only the second straggler has worker 0.
  CHECK(points[0].lab_ms.value() == Approx(points[0].estimate.clock_ms + 100).epsilon(0.05));
  CHECK(points[1].lab_ms.value() > 1.5 * points[0].lab_ms.value());
}

TEST_CASE("workers that meet every ten clocks move a tenth at each", "[lab]") {
  pb::Job job;
  job.mutable_consistency()->mutable_periodic_averaging()->set_interval(10);
  const auto meeting = estimate("clock_ms: 1", 8, Slack(0), 1'000'000, "", job);
  CHECK(meeting.network_ms == Approx(3.2).epsilon(0.01));
  CHECK(meeting.exposed_ms < 1);
}

TEST_CASE("of a table by rows a clock moves those of a batch with their numbers", "[lab][rows]") {
  model::Graph graph = test::graph_of(
      "layer { name: 'in' type: 'DummyData' top: 'numbers' dummy_data_param {"
      "  shape { dim: 500 dim: 4 } classes: 1000000 } }"
      "layer { name: 'rows' type: 'Embed' top: 'rows' bottom: 'numbers' embed_param {"
      "  input_dim: 1000000 num_output: 8 bias_term: false by_rows: true buckets: 3 } }");
  // 2,000 rows of 8 values, whose numbers are in the request and in the update.
  CHECK(estimate_of(graph, "clock_ms: 1", 8, Slack(0)).network_ms ==
        Approx(8 * 2000 * (8 * 4 + 2 * 8) / 1e6).epsilon(0.01));
}

TEST_CASE("a ring's clock is its bytes over each card, however many workers there are", "[lab]") {
  pb::Job job;
  job.mutable_exchange()->set_type(pb::WorkerExchange::ALLREDUCE);
  // 8 Gbit/s are 1,000 bytes a microsecond, and a rank sends 2 (n - 1) / n times 4 MB.
  for (const std::uint32_t workers : {2U, 4U, 8U}) {
    const auto one = estimate("clock_ms: 1", workers, Slack(0), 1'000'000, "", job);
    CHECK(one.network_ms == Approx(8.0 * (workers - 1) / workers).epsilon(0.01));
    CHECK(one.server_ms == 0);
  }
}

TEST_CASE("averages of two wait for no straggler, and those with neighbours pass while it computes",
          "[lab]") {
  pb::Job job;
  job.mutable_exchange()->set_type(pb::WorkerExchange::GOSSIP);
  const std::string spread = "clock_ms: 20 spread: LOGNORMAL deviation: 0.5";
  const auto together = estimate(spread, 8, Slack(0), 1000, "", job);
  CHECK(together.spread_ms > 2);
  CHECK(together.spread_ms < 8);  // of all eight it would be 13
  CHECK(together.exposed_ms == 0);
  job.mutable_exchange()->set_asynchronous(true);
  const auto apart = estimate(spread, 8, Slack(0), 1000, "", job);
  CHECK(apart.spread_ms == 0);
  CHECK(apart.clock_ms == Approx(20));
}

TEST_CASE("a shard is the limit where applying updates takes longest", "[lab]") {
  // A MiB of each of 8 workers.
  const ClosedEstimate one =
      estimate("clock_ms: 1", 8, Slack(0), 1UL << 18U, "", {}, "apply_us_per_mib: 2000");
  CHECK(one.server_ms == Approx(16));
  CHECK(one.limit == "server");
}

}  // namespace taut::lab
