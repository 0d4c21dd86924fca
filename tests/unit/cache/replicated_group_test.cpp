#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/config/settle_policies.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/cache/replicas.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/group_cache.hpp"
#include "worker/cache/replicated_cache.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

constexpr std::uint32_t kWorkers = 2;
constexpr std::size_t kDevices = 2;

JobMaker ring_job() {
  JobMaker job(kWorkers, Slack(0), 2);
  pb::Job& definition = *job.state.mutable_definition();
  definition.mutable_exchange()->set_type(pb::WorkerExchange::ALLREDUCE);
  definition.mutable_consistency()->set_mode(pb::Consistency::BSP);
  definition.mutable_consistency()->mutable_periodic_averaging()->set_interval(1000);
  job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.05F);
  return job;
}

/// A worker of several devices that sums gradients with the others.
class GroupWorker {
 public:
  GroupWorker(ServedJob& served, std::uint32_t number, std::uint64_t seed)
      : number_(number), client_(served.client(number)), host_(test::cpu()) {
    rank_ = collective::listen_as_rank("127.0.0.1:0", false, board_).value();
    place_ = rank_.place;
    // The first worker's devices are late and have their own memory, the other's are the host's.
    if (number == 0) late_ = std::make_unique<test::LateBackend>(*host_, late_options(seed));
    devices_.assign(kDevices, late_ ? static_cast<Backend*>(late_.get()) : host_.get());
  }

  [[nodiscard]] const pb::RankPlace& place() const { return place_; }
  [[nodiscard]] collective::RankBoard& board() { return board_; }

  /// Trains, and returns what each device then has.
  std::vector<test::ReadTables> train(const JobMaker& job) {
    GroupCache::Options options;
    options.rule = to_update_rule(job.state.definition().solver_param()).value();
    options.schedule.interval = 1000;
    options.wait = kDeadline;
    options.group.job = 7;
    options.group.limit = kDeadline;
    auto behind =
        GroupCache::open(*client_, *devices_[0], test::tables(), options, std::move(rank_), board_);
    ReplicatedCache cache(std::move(behind.value()), devices_, test::tables(),
                          {.order = GroupOrder::kMembers});
    test::Replicas nets(devices_, cache, number_ * kDevices);
    nets.train();
    cache.flush(kDeadline).value();
    std::vector<test::ReadTables> read;
    for (std::size_t i = 0; i < kDevices; ++i) read.push_back(nets.read(i));
    return read;
  }

 private:
  static test::LateBackend::Options late_options(std::uint64_t seed) {
    test::LateBackend::Options options;
    options.seed = seed;
    return options;
  }

  const std::uint32_t number_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Backend> host_;
  std::unique_ptr<test::LateBackend> late_;
  std::vector<Backend*> devices_;
  collective::RankBoard board_;
  collective::RankEndpoint rank_;
  pb::RankPlace place_;
};

/// All workers know all places, as from the coordinator.
void announce(const std::vector<std::unique_ptr<GroupWorker>>& workers) {
  pb::WorkerJob job;
  job.mutable_group()->set_number(1);
  for (std::uint32_t i = 0; i < workers.size(); ++i) {
    pb::RankGroup::Rank& rank = *job.mutable_group()->add_ranks();
    rank.set_worker(i);
    rank.set_name("worker" + std::to_string(i));
    rank.set_host("here");
    *rank.mutable_place() = workers[i]->place();
  }
  for (std::uint32_t i = 0; i < workers.size(); ++i) {
    job.set_worker(i);
    workers[i]->board().post(job);
  }
}

}  // namespace

TEST_CASE("workers of several devices that sum among themselves train as all devices on one do",
          "[replicated_cache][group_cache]") {
  JobMaker job = ring_job();
  const test::ReadTables reference = test::expected(job, kWorkers * kDevices);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    ServedJob served(job);
    std::vector<std::unique_ptr<GroupWorker>> workers;
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      workers.push_back(std::make_unique<GroupWorker>(served, i, seed));
    }
    announce(workers);
    std::vector<std::future<std::vector<test::ReadTables>>> trainings;
    for (const auto& worker : workers) {
      trainings.push_back(
          std::async(std::launch::async, [&worker, &job] { return worker->train(job); }));
    }
    std::vector<test::ReadTables> all;
    for (auto& training : trainings) {
      for (test::ReadTables& device : training.get()) all.push_back(std::move(device));
    }
    REQUIRE(all.size() == kWorkers * kDevices);
    test::check_close(all[0], reference);
    for (const test::ReadTables& other : all) {
      for (std::size_t t = 0; t < other.size(); ++t) CHECK(test::same_bits(all[0][t], other[t]));
    }
  }
}

}  // namespace taut
