#include "tests/unit/worker/small_training.hpp"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <utility>

#include "proto/config/text.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/device_store.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/training/trainer.hpp"

namespace taut::test {

using namespace worker;

namespace {

/// Of the source, or of the bundle that this runs from.
std::filesystem::path models() {
  const char* const bundle = std::getenv("TAUTLINE_BUNDLE");
  const std::filesystem::path root = bundle == nullptr
                                         ? std::filesystem::path(TAUT_SOURCE_FOLDER)
                                         : std::filesystem::path(bundle) / "share/tautline";
  return root / "configs/models";
}

Tables values_of(ParameterCache& cache, const model::Graph& graph) {
  Tables all;
  for (const TableSpec& table : model::served_tables(graph)) {
    std::vector<float>& values = all.emplace_back(table.count());
    if (table.rows) {
      std::vector<std::uint64_t> rows(static_cast<std::size_t>(table.shape[0]));
      std::iota(rows.begin(), rows.end(), 0);
      REQUIRE(cache.snapshot_rows(table.id, rows, values).has_value());
    } else {
      REQUIRE(cache.snapshot(table.id, values).has_value());
    }
  }
  return all;
}

Trainer::Options until(std::int64_t end) {
  Trainer::Options options;
  options.end = Clock(end);
  return options;
}

Result<std::unique_ptr<ParameterCache>> open(CacheOf kind, Client& client, Backend& backend,
                                             const std::vector<TableSpec>& tables,
                                             const ServedCache::Options& options) {
  if (kind == CacheOf::kBackend) {
    TAUT_TRY(auto cache, ServedCache::open(client, backend, tables, options));
    return std::unique_ptr<ParameterCache>(std::move(cache));
  }
  auto store = std::make_unique<DeviceStore>(client, backend, tables, options);
  TAUT_TRY(auto cache, ServedCache::open(client, backend, tables, options, std::move(store)));
  return std::unique_ptr<ParameterCache>(std::move(cache));
}

}  // namespace

std::unique_ptr<Backend> one_thread() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

pb::Job job_of(const std::string& model, const std::vector<Fed>& fed) {
  pb::NetParameter net;
  REQUIRE(read_text(models() / (model + ".prototxt"), net).has_value());
  pb::Job job;
  job.set_seed(5);
  pb::NetParameter& job_net = *job.mutable_net_param();
  job_net.set_name(model);
  pb::LayerParameter& data = *job_net.add_layer();
  data.set_name("made up");
  data.set_type("DummyData");
  for (const Fed& blob : fed) {
    pb::DummyDataParameter& parameter = *data.mutable_dummy_data_param();
    auto* const shape = parameter.add_shape();
    for (const std::int64_t extent : blob.shape) shape->add_dim(extent);
    pb::FillerParameter& filler = *parameter.add_data_filler();
    filler.set_type(blob.classes == 0 ? "gaussian" : "constant");
    filler.set_std(1);
    parameter.add_classes(blob.classes);
  }
  for (const pb::LayerParameter& layer : net.layer()) {
    if (layer.type() == "Data") {
      if (data.top_size() == 0) *data.mutable_top() = layer.top();
    } else if (layer.type() != "Accuracy") {
      *job_net.add_layer() = layer;
    }
  }
  REQUIRE(data.top_size() == static_cast<int>(fed.size()));
  job.mutable_solver_param()->set_base_lr(0.01F);
  job.mutable_solver_param()->set_momentum(0.9F);
  return job;
}

pb::Job lenet() {
  return job_of("lenet", {{{64, 1, 28, 28}, 0}, {{64}, 10}});
}

Result<Tables> train(Backend& backend, const pb::Job& job, std::int64_t clocks,
                     std::uint32_t replicas, Bytes budget) {
  TAUT_TRY(const JobAssets assets, JobAssets::open(job, replicas));
  std::vector<Replica> copies;
  for (std::uint32_t slot = 0; slot < replicas; ++slot) {
    TAUT_TRY(Replica replica, assets.make_replica(backend, slot, replicas, Clock(0)));
    copies.push_back(std::move(replica));
  }
  LocalCache::Options options;
  options.seed = job.seed();
  options.replicas = replicas;
  options.budget = budget;
  options.rule = to_update_rule(job.solver_param()).value();
  LocalCache cache(backend, assets.train_graph().parameters, options);
  ProgressBoard board;
  Trainer trainer(copies, cache, nullptr, until(clocks), board);
  const std::atomic<bool> stop = false;
  TAUT_TRY(trainer.run(stop));
  return values_of(cache, assets.train_graph());
}

Result<Tables> train_served(Backend& backend, const pb::Job& job, std::int64_t clocks,
                            CacheOf kind) {
  JobMaker maker(1, Slack(0), 2);
  *maker.state.mutable_definition() = job;
  ServedJob served(maker);
  TAUT_TRY(const JobAssets assets, JobAssets::open(job, 1));
  std::vector<Replica> copies;
  TAUT_TRY(Replica replica, assets.make_replica(backend, 0, 1, Clock(0)));
  copies.push_back(std::move(replica));
  const auto client = served.client(0);
  ServedCache::Options options;
  options.wait = kDeadline;
  options.batch_rows = model::batch_rows(assets.train_graph());
  TAUT_TRY(const auto cache,
           open(kind, *client, backend, model::served_tables(assets.train_graph()), options));
  ProgressBoard board;
  Trainer trainer(copies, *cache, nullptr, until(clocks), board);
  const std::atomic<bool> stop = false;
  TAUT_TRY(trainer.run(stop));
  TAUT_TRY(cache->flush(kDeadline));
  return values_of(*cache, assets.train_graph());
}

}  // namespace taut::test
