#include <algorithm>

#include "lab/training/records/playback.hpp"
#include "lab/training/training_run.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/model/job/job.hpp"

namespace taut::lab {
namespace {

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
solver_param { base_lr: 0.1 max_iter: 300 }
)";

constexpr const char* kCluster = R"(
host { name: "s" workers: 0 servers: 1 link: "card" }
host { name: "w" count: 3 link: "card" }
link { name: "card" gbit_per_s: 0.01 latency_us: 50 jitter_us: 100 }
compute { clock_ms: 5 spread: LOGNORMAL deviation: 0.5 }
outage { host: "w1" at_s: 0.1 back_s: 0.1 }
control { heartbeat_limit_s: 0.5 }
)";

TrainingOutcome train(Playback* playback) {
  const test::TempFolder folder;
  folder.write("job.textproto", kJob);
  auto job = model::load_job(folder.path() / "job.textproto");
  if (!job) FAIL(job.error().message);
  auto cluster = parse_lab_cluster(kCluster, "cluster");
  if (!cluster) FAIL(cluster.error().message);
  TrainingOptions options;
  options.job = std::move(job.value());
  options.cluster = std::move(cluster.value());
  options.seed = 5;
  options.records.set_metrics(false);
  options.playback = playback;
  auto outcome = run_training(options);
  if (!outcome) FAIL(outcome.error().message);
  return std::move(outcome.value());
}

}  // namespace

TEST_CASE("a training has the same bits and times whether it is recorded or not", "[lab]") {
  const TrainingOutcome alone = train(nullptr);
  Playback playback;
  const TrainingOutcome recorded = train(&playback);
  CHECK(recorded.job.state() == pb::DONE);
  CHECK(!recorded.job.parameters_sha256().empty());
  CHECK(recorded.job.SerializeAsString() == alone.job.SerializeAsString());
  CHECK(recorded.virtual_s == alone.virtual_s);
  CHECK(recorded.events == alone.events);
  // It has recorded something: a host that was lost too.
  const TimePoint end(from_seconds(recorded.virtual_s));
  const std::size_t bins = playback.bins(end);
  REQUIRE(bins > 100);
  const auto clocks = playback.clocks(bins);
  std::size_t members = 0;
  std::int32_t lead = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    std::vector<std::int32_t> here;
    for (const auto& row : clocks) {
      if (row[bin] != TimeBins::kNone) here.push_back(row[bin]);
    }
    if (here.empty()) continue;
    members += here.size();
    const auto [least, most] = std::ranges::minmax(here);
    lead = std::max(lead, most - least);
  }
  // The bound is reached, and never passed.
  CHECK(lead == 2);
  CHECK(members < 3 * bins);
  for (const auto& row : clocks) CHECK(row.back() == 300);
  double computed_us = 0;
  for (const double us : playback.spent_us(1, Playback::State::kComputing)) computed_us += us;
  CHECK(computed_us > 300 * 2'000);
  double finished = 0;
  for (const double clocks : playback.finished()) finished += clocks;
  CHECK(finished >= 3 * 300 - 50);
}

}  // namespace taut::lab
