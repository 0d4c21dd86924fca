#include "tests/unit/lab/tiny_training.hpp"

#include <utility>

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
)";

constexpr const char* kCluster = R"(
host { name: "s" workers: 0 servers: 1 link: "card" }
host { name: "w" count: 3 link: "card" }
link { name: "card" gbit_per_s: 0.01 latency_us: 50 jitter_us: 100 }
)";

}  // namespace

TrainingOptions tiny_training(const std::string& job, const std::string& cluster) {
  const test::TempFolder folder;
  folder.write("job.textproto", kJob + job);
  auto loaded = model::load_job(folder.path() / "job.textproto");
  if (!loaded) FAIL(loaded.error().message);
  auto parsed = parse_lab_cluster(kCluster + cluster, "cluster");
  if (!parsed) FAIL(parsed.error().message);
  TrainingOptions options;
  options.job = std::move(loaded.value());
  options.cluster = std::move(parsed.value());
  options.seed = 5;
  options.records.set_metrics(false);
  return options;
}

TrainingOutcome run_to_end(const TrainingOptions& options) {
  auto outcome = run_training(options);
  if (!outcome) FAIL(outcome.error().message);
  return std::move(outcome.value());
}

}  // namespace taut::lab
