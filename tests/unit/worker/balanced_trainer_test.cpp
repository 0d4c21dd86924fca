// The training loop where the part of a batch changes that a worker computes.
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/ssp/batch_shares.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {
namespace {

using Catch::Matchers::StartsWith;

constexpr std::int64_t kClocks = 12;
constexpr std::uint32_t kBatch = 8;
constexpr std::uint32_t kRecords = 30;

/// An IDX file of bytes.
void write_idx(const test::TempFolder& folder, const std::string& name,
               const std::vector<std::uint32_t>& extents, std::size_t count) {
  std::string bytes{0, 0, 8, static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(extent >> shift);
  }
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 7 % 3);
  folder.write(name, bytes);
}

pb::Job tiny_job(const test::TempFolder& folder, const std::string& more = "") {
  write_idx(folder, "images", {kRecords, 3, 3}, kRecords * 9);
  write_idx(folder, "labels", {kRecords}, kRecords);
  pb::Job job;
  const std::string text = R"(
    seed: 3 workers: 2 balance: true
    net_param {
      layer { name: 'd' type: 'Data' top: 'data' top: 'label'
              data_param { batch_size: 8 backend: IDX } }
      layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
              inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } })" +
                           more + R"(
      layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
    }
    solver_param { base_lr: 0.1 })";
  REQUIRE(parse_text(text, "job", job).has_value());
  pb::DataSource& data = *job.add_data();
  data.set_images((folder.path() / "images").string());
  data.set_labels((folder.path() / "labels").string());
  return job;
}

struct Seen {
  ProgressReport end;
  std::vector<float> values;
  std::map<std::int64_t, std::int64_t> batches;  // of the clocks at which they changed
};

/// Trains as the second of two workers.
Seen train(Backend& backend, const JobAssets& assets) {
  BatchShares shares(kBatch, 2);
  shares.change(Clock(3), {13, 3});
  shares.change(Clock(4), {1, 15});
  shares.change(Clock(9), {10, 6});
  std::vector<Replica> replicas;
  ReplicaOptions own;
  auto part = shares.part(Clock(0), 1);
  own.part = part;
  replicas.push_back(assets.make_replica(backend, 1, 2, Clock(0), 0, own).value());
  LocalCache::Options caching;
  caching.seed = assets.job().seed();
  caching.rule = to_update_rule(assets.job().solver_param()).value();
  LocalCache cache(backend, assets.train_graph().parameters, caching);
  Seen seen;
  ProgressBoard board;
  Trainer::Options options;
  options.end = Clock(kClocks);
  options.changes_batch = [&](Clock clock) -> Result<bool> {
    const auto next = shares.part(clock, 1);
    return std::exchange(part, next) != next;
  };
  options.change_batch = [&](Clock clock) {
    seen.batches[clock.value()] = part.records;
    return assets.change_part(replicas[0], 1, clock, part, {});
  };
  Trainer trainer(replicas, cache, nullptr, options, board);
  const std::atomic<bool> stop = false;
  REQUIRE(trainer.run(stop).has_value());
  seen.end = board.read();
  seen.values.resize(assets.train_graph().parameters[0].count());
  REQUIRE(cache.snapshot(TableId(0), seen.values).has_value());
  return seen;
}

}  // namespace

TEST_CASE("a device computes the parts of a batch that change as the host does", "[trainer]") {
  const test::TempFolder folder;
  const JobAssets assets = JobAssets::open(tiny_job(folder), 2).value();
  const auto host = test::one_thread();
  const Seen expected = train(*host, assets);
  CHECK(expected.batches == std::map<std::int64_t, std::int64_t>{{3, 3}, {4, 15}, {9, 6}});
  CHECK(expected.end.images == 3 * 8 + 3 + 5 * 15 + 3 * 6);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    test::LateBackend late(*host, {.seed = seed});
    const Seen seen = train(late, assets);
    CHECK(seen.batches == expected.batches);
    CHECK(seen.end.images == expected.end.images);
    CHECK(seen.end.loss == expected.end.loss);
    CHECK(seen.values == expected.values);
  }
}

TEST_CASE("a net whose batch cannot change is refused where its data is opened", "[trainer]") {
  const test::TempFolder folder;
  const auto error_of = [&](const pb::Job& job, std::uint32_t devices = 1) {
    const auto assets = JobAssets::open(job, 2, devices);
    REQUIRE_FALSE(assets.has_value());
    return assets.error().message;
  };
  CHECK_THAT(error_of(tiny_job(folder), 2), StartsWith("balance: this worker has several devices"));
  const std::string reshape = R"(
      layer { name: 'r' type: 'Reshape' bottom: 'ip' top: 'r'
              reshape_param { shape { dim: 8 dim: 3 } } })";
  CHECK_THAT(error_of(tiny_job(folder, reshape)),
             StartsWith("balance: the net has no batch of 9: "));
  const std::string filled = R"(
      layer { name: 'f' type: 'DummyData' top: 'f' dummy_data_param { shape { dim: 8 dim: 3 } } }
      layer { name: 's' type: 'Silence' bottom: 'f' })";
  CHECK_THAT(error_of(tiny_job(folder, filled)),
             StartsWith("balance: the batch of layer \"f\" cannot change"));
}

}  // namespace taut::worker
