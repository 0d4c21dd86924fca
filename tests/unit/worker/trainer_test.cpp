#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/served_job.hpp"
#include "tests/unit/worker/tiny_job.hpp"
#include "worker/cache/initial_values.hpp"
#include "worker/cache/replicated_cache.hpp"
#include "worker/cache/served_cache.hpp"

namespace taut::worker {
namespace {

using test::cpu;
using test::JobMaker;
using test::kDeadline;
using test::kEnd;
using test::kWorkers;
using test::local_cache;
using test::ServedJob;
using test::TinyJob;

std::vector<std::vector<float>> values_of(ParameterCache& cache, const model::Graph& graph) {
  std::vector<std::vector<float>> all;
  for (const TableSpec& table : graph.parameters) {
    all.emplace_back(table.count());
    REQUIRE(cache.snapshot(table.id, all.back()).has_value());
  }
  return all;
}

}  // namespace

TEST_CASE("the loop with servers ends in the bits of the loop without, under BSP", "[trainer]") {
  TinyJob tiny;
  const int batches = GENERATE(1, 3);
  tiny.job.mutable_solver_param()->set_iter_size(batches);
  const Trainer::Options whole = trainer_options(tiny.job);
  REQUIRE(whole.end == kEnd);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const std::atomic<bool> stop = false;

  std::vector<Replica> replicas;
  for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
    replicas.push_back(std::move(assets.make_replica(*backend, slot, kWorkers, Clock(0)).value()));
  }
  const auto local = local_cache(tiny, assets, *backend, kWorkers);
  ProgressBoard board;
  Trainer trainer(replicas, *local, nullptr, whole, board);
  REQUIRE(trainer.run(stop).value() == kEnd);
  CHECK(board.read().clock == kEnd);
  CHECK(board.read().images == 4 * kWorkers * 6 * static_cast<unsigned>(batches));
  const auto expected = values_of(*local, assets.train_graph());

  JobMaker maker(kWorkers, Slack(0), 2);
  *maker.state.mutable_definition() = tiny.job;
  ServedJob served(maker);
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    clients.push_back(served.client(worker));
  }
  std::vector<std::future<std::string>> running;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    running.push_back(std::async(std::launch::async, [&, worker]() -> std::string {
      const auto own = cpu();
      std::vector<Replica> one;
      auto replica = assets.make_replica(*own, worker, kWorkers, Clock(0));
      if (!replica) return replica.error().message;
      one.push_back(std::move(replica.value()));
      ServedCache::Options options;
      options.wait = kDeadline;
      auto cache =
          ServedCache::open(*clients[worker], *own, assets.train_graph().parameters, options);
      if (!cache) return cache.error().message;
      ProgressBoard progress;
      Trainer member(one, *cache.value(), nullptr, whole, progress);
      auto reached = member.run(stop);
      if (!reached) return reached.error().message;
      auto flushed = cache.value()->flush(kDeadline);
      return flushed ? "" : flushed.error().message;
    }));
  }
  for (auto& one : running) REQUIRE(one.get() == "");
  const auto reader = served.client(0);
  REQUIRE(reader->open(assets.train_graph().parameters, kDeadline).has_value());
  for (const TableSpec& table : assets.train_graph().parameters) {
    CAPTURE(table.name);
    std::vector<float> values(table.count());
    CHECK(reader->snapshot(table.id, values, kDeadline).value().version == kEnd);
    CHECK(test::same_bits(values, expected[table.id.value()]));
  }
}

TEST_CASE("devices that share a batch move parameters as one device does", "[trainer]") {
  const std::atomic<bool> stop = false;
  const auto train = [&](std::uint32_t count) {
    TinyJob tiny;
    auto opened = JobAssets::open(tiny.job, 1, count);
    REQUIRE(opened.has_value());
    const JobAssets assets = std::move(opened.value());
    std::vector<std::unique_ptr<Backend>> backends;
    std::vector<Backend*> devices;
    std::vector<Replica> replicas;
    for (std::uint32_t i = 0; i < count; ++i) {
      backends.push_back(cpu());
      devices.push_back(backends.back().get());
      replicas.push_back(std::move(assets.make_replica(*devices[i], 0, 1, Clock(0), i).value()));
    }
    std::unique_ptr<ParameterCache> cache = local_cache(tiny, assets, *devices[0], 1);
    if (count > 1) {
      cache = std::make_unique<ReplicatedCache>(
          std::move(cache), devices, assets.train_graph().parameters, ReplicatedCache::Options());
    }
    ProgressBoard board;
    Trainer trainer(replicas, *cache, nullptr, trainer_options(tiny.job), board);
    REQUIRE(trainer.run(stop).value() == kEnd);
    CHECK(board.read().images == 4 * 6);
    return std::pair(values_of(*cache, assets.train_graph()), board.read().loss);
  };
  // A clock draws the same four records, however many compute them.
  const auto [alone, alone_loss] = train(1);
  for (const std::uint32_t count : {2U, 4U}) {
    const auto [shared, shared_loss] = train(count);
    CHECK(shared_loss == Approx(alone_loss).epsilon(1e-4));
    for (std::size_t table = 0; table < alone.size(); ++table) {
      for (std::size_t i = 0; i < alone[table].size(); ++i) {
        REQUIRE(shared[table][i] == Approx(alone[table][i]).epsilon(1e-3).margin(1e-5));
      }
    }
  }
}

TEST_CASE("several small batches of a clock move parameters as one large batch", "[trainer]") {
  const auto backend = cpu();
  const std::atomic<bool> stop = false;
  const auto train = [&](int size, int batches) {
    TinyJob tiny;
    tiny.job.mutable_solver_param()->set_iter_size(batches);
    tiny.job.mutable_net_param()->mutable_layer(0)->mutable_data_param()->set_batch_size(
        static_cast<std::uint32_t>(size));
    const JobAssets assets = tiny.assets();
    std::vector<Replica> replicas;
    replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
    const auto cache = local_cache(tiny, assets, *backend, 1);
    ProgressBoard board;
    Trainer trainer(replicas, *cache, nullptr, trainer_options(tiny.job), board);
    REQUIRE(trainer.run(stop).value() == kEnd);
    CHECK(board.read().images == 8 * 6);
    return std::pair(values_of(*cache, assets.train_graph()), board.read().loss);
  };
  // A clock draws the same eight records, however they are cut.
  const auto [large, large_loss] = train(8, 1);
  const auto [halves, halves_loss] = train(4, 2);
  const auto [quarters, quarters_loss] = train(2, 4);
  CHECK(halves_loss == Approx(large_loss).epsilon(1e-4));
  CHECK(quarters_loss == Approx(large_loss).epsilon(1e-4));
  for (std::size_t table = 0; table < large.size(); ++table) {
    for (std::size_t i = 0; i < large[table].size(); ++i) {
      REQUIRE(halves[table][i] == Approx(large[table][i]).epsilon(1e-3).margin(1e-5));
      REQUIRE(quarters[table][i] == Approx(large[table][i]).epsilon(1e-3).margin(1e-5));
    }
  }
}

TEST_CASE("initial values are the ones that a parameter cache starts from", "[trainer]") {
  const TinyJob tiny;
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const auto expected = values_of(*cache, assets.train_graph());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> values(expected[i].size());
    const TableSpec& table = assets.train_graph().parameters[i];
    REQUIRE(read_initial_values(table, tiny.job.seed(), values).has_value());
    CHECK(values == expected[i]);
  }
}

TEST_CASE("initial values of a table that starts from a file are the file's", "[trainer]") {
  const test::TempFolder folder;
  const std::vector<float> stored = {1.5F, -2.0F, 0.25F};
  const std::string bytes(reinterpret_cast<const char*>(stored.data()), 3 * sizeof(float));
  folder.write("weights", "head" + bytes);
  TableSpec table;
  table.name = "weights";
  table.shape = {3};
  table.origin = TensorPlace{(folder.path() / "weights").string(), "", 4, ElementType::kF32};
  std::vector<float> values(3);
  REQUIRE(read_initial_values(table, 1, values).has_value());
  CHECK(values == stored);
  table.origin->file += " elsewhere";
  CHECK_FALSE(read_initial_values(table, 1, values).has_value());
}

}  // namespace taut::worker
