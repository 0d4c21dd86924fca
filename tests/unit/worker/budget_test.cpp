#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/text.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/backend/cpu_backend.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/planned_backend.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/trainer.hpp"

namespace taut::worker {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

using Tables = std::vector<std::vector<float>>;

const std::filesystem::path kRoot = TAUT_SOURCE_FOLDER;

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

struct Fed {
  std::vector<std::int64_t> shape;
  std::uint32_t classes = 0;  // 0: noise
};

/// A model of configs/models with made-up data in the place of its own.
pb::Job job_of(const std::string& model, const std::vector<Fed>& fed) {
  pb::NetParameter net;
  REQUIRE(read_text(kRoot / "configs/models" / (model + ".prototxt"), net).has_value());
  pb::Job job;
  job.set_seed(5);
  pb::NetParameter& made = *job.mutable_net_param();
  made.set_name(model);
  pb::LayerParameter& data = *made.add_layer();
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
      *made.add_layer() = layer;
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

Tables values_of(ParameterCache& cache, const model::Graph& graph) {
  Tables all;
  for (const TableSpec& table : graph.parameters) {
    all.emplace_back(table.count());
    REQUIRE(cache.snapshot(table.id, all.back()).has_value());
  }
  return all;
}

Trainer::Options until(std::int64_t end) {
  Trainer::Options options;
  options.end = Clock(end);
  return options;
}

/// Trains without a server.
/// budget  that the backend keeps to; 0: none
Result<Tables> train(Backend& backend, const pb::Job& job, std::int64_t clocks,
                     std::uint32_t replicas = 1, Bytes budget = Bytes(0)) {
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
  Trainer trainer(copies, cache, backend, nullptr, until(clocks), board);
  const std::atomic<bool> stop = false;
  TAUT_TRY(trainer.run(stop));
  return values_of(cache, assets.train_graph());
}

/// Trains as the only worker of a server's.
Result<Tables> train_served(Backend& backend, const pb::Job& job, std::int64_t clocks) {
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
  TAUT_TRY(auto cache,
           open_served_cache(*client, backend, assets.train_graph().parameters, options));
  ProgressBoard board;
  Trainer trainer(copies, *cache, backend, nullptr, until(clocks), board);
  const std::atomic<bool> stop = false;
  TAUT_TRY(trainer.run(stop));
  TAUT_TRY(cache->flush(kDeadline));
  return values_of(*cache, assets.train_graph());
}

Result<Tables> train(PlannedBackend& backend, const pb::Job& job, std::int64_t clocks,
                     std::uint32_t replicas = 1) {
  return train(backend, job, clocks, replicas, backend.budget());
}

void check_same(const Tables& a, const Tables& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t table = 0; table < a.size(); ++table) {
    CAPTURE(table);
    CHECK(test::same_bits(a[table], b[table]));
  }
}

/// What training takes when every buffer has its own place.
std::uint64_t need_of(const pb::Job& job) {
  const auto host = cpu();
  PlannedBackend unlimited(*host, {.budget = Bytes(1ULL << 34U)});
  REQUIRE(train(unlimited, job, 0).has_value());
  return total_bytes(unlimited.cycle("training")->trace()).value();
}

}  // namespace

TEST_CASE("LeNet in a quarter of its need ends in the same bits, alone and served", "[budget]") {
  const pb::Job job = lenet();
  const std::uint64_t need = need_of(job);
  CAPTURE(need);
  const auto host = cpu();
  const Tables expected = train(*host, job, 4).value();
  for (const std::uint64_t seed : {0, 1, 2}) {
    CAPTURE(seed);
    test::LateBackend late(*host, {.seed = seed});
    PlannedBackend planned(late, {.budget = Bytes(need / 4), .poison = true});
    const auto within = train(planned, job, 4);
    INFO((within ? std::string() : within.error().message));
    REQUIRE(within.has_value());
    check_same(within.value(), expected);
    CHECK(planned.arena_bytes().value() <= need / 4);
    CHECK(planned.cycle("training")->plan().moved_bytes().value() > 0);
  }
  PlannedBackend planned(*host, {.budget = Bytes(need / 4)});
  check_same(train_served(planned, job, 4).value(), train_served(*host, job, 4).value());
  test::LateBackend late(*host, {});
  PlannedBackend later(late, {.budget = Bytes(need / 4), .poison = true});
  check_same(train_served(later, job, 4).value(), train_served(*host, job, 4).value());
}

TEST_CASE("a served device with memory of its own trains LeNet to the same bits", "[budget]") {
  const pb::Job job = lenet();
  const auto host = cpu();
  const Tables expected = train_served(*host, job, 4).value();
  for (const std::uint64_t seed : {0, 1, 2}) {
    CAPTURE(seed);
    test::LateBackend late(*host, {.seed = seed});
    check_same(train_served(late, job, 4).value(), expected);
  }
}

TEST_CASE("nets of every kind end in the same bits within half of their need", "[budget]") {
  const std::vector<std::pair<std::string, pb::Job>> jobs = {
      {"cifar10_quick", job_of("cifar10_quick", {{{20, 3, 32, 32}, 0}, {{20}, 10}})},
      {"resnet18", job_of("resnet18", {{{2, 3, 64, 64}, 0}, {{2}, 1000}})},
      {"char_lstm", job_of("char_lstm", {{{50, 8}, 66}, {{50, 8}, 66}, {{50, 8}, 2}})},
      {"transformer", job_of("transformer", {{{64, 2}, 66}, {{64, 2}, 66}})},
  };
  for (const auto& [name, job] : jobs) {
    const std::uint64_t need = need_of(job);
    CAPTURE(name, need);
    const auto host = cpu();
    const Tables expected = train(*host, job, 3).value();
    PlannedBackend planned(*host, {.budget = Bytes(need / 2), .poison = true});
    const auto within = train(planned, job, 3);
    INFO((within ? std::string() : within.error().message));
    REQUIRE(within.has_value());
    check_same(within.value(), expected);
    CHECK(planned.cycle("training")->plan().moved_bytes().value() > 0);
    CHECK(planned.arena_bytes().value() <= need / 2);
  }
}

TEST_CASE("two replicas share a budget and end in the same bits", "[budget]") {
  const pb::Job job = lenet();
  const auto host = cpu();
  const Tables expected = train(*host, job, 3, 2).value();
  PlannedBackend planned(*host, {.budget = Bytes(need_of(job) / 2), .poison = true});
  check_same(train(planned, job, 3, 2).value(), expected);
}

TEST_CASE("a budget that cannot work is refused before the first clock", "[budget]") {
  const auto host = cpu();
  PlannedBackend planned(*host, {.budget = Bytes(2'000'000)});
  const auto refused = train(planned, lenet(), 3);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find('\n') == std::string::npos);
  for (const char* part :
       {"needs 3686400 bytes", "'conv1' with 2949120 bytes", "budget is 2000000 bytes"}) {
    CAPTURE(refused.error().message, part);
    CHECK(refused.error().message.find(part) != std::string::npos);
  }
}

}  // namespace taut::worker
