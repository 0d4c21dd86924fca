// A run in a worker's process, with sockets, threads and a clock, and the measurements before it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "common/log.hpp"
#include "common/net/reach.hpp"
#include "common/system/affinity.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/session/coordinator_addresses.hpp"
#include "worker/client/client.hpp"
#include "worker/compression/scheme_costs.hpp"
#include "worker/job_run.hpp"

namespace taut::worker {
namespace {

constexpr Duration kChoiceStep{1'000};

/// Ends the client's waits when the job must stop, and notifies it when shards move.
class StopWatch {
 public:
  StopWatch(Client& client, const std::atomic<bool>& stop, ShardMoves& moves)
      : thread_([this, &client, &stop, &moves] {
          while (!over_) {
            if (auto moved = moves.take(); !moved.empty()) client.move_shards(std::move(moved));
            if (stop) {
              client.cancel();
              return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~StopWatch() {
    over_ = true;
    thread_.join();
  }
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

/// A worker's process.
class ProcessPlace final : public RunPlace {
 public:
  ProcessPlace(ZmqContext& context, RunOrders& orders, const pb::ClusterConfig& config)
      : context_(context), orders_(orders), config_(config) {}
  std::unique_ptr<Endpoint> make_endpoint() override { return context_.make_endpoint(); }
  Pace& pace() override { return machine_pace(); }
  bool has_threads() const override { return true; }
  Result<collective::RankEndpoint> listen_as_rank(const collective::RankBoard& board) override {
    std::string at = config_.worker().rank_listen();
    if (at.empty()) {
      const CoordinatorAddresses coordinators(config_.coordinator_address());
      TAUT_TRY(const std::string host, local_host_towards(coordinators.current()));
      at = host + ":0";
    }
    auto rank = collective::listen_as_rank(at, !config_.insecure(), board);
    if (rank || config_.worker().rank_listen().empty()) return rank;
    return make_error(rank.error().code, "worker.rank_listen: " + rank.error().message);
  }
  void use(Client* client) override {
    watch_.reset();
    if (client != nullptr) watch_.emplace(*client, orders_.stop, orders_.moves);
  }

 private:
  ZmqContext& context_;
  RunOrders& orders_;
  const pb::ClusterConfig& config_;
  std::optional<StopWatch> watch_;
};

/// Measures what the choice of schemes depends on at this worker (compression AUTO), except the
/// link.
Result<void> measure(const pb::WorkerJob& job, const JobAssets& assets, Backend& device,
                     const pb::WorkerConfig& settings, pb::CompressionCosts& costs) {
  TAUT_TRY(measure_codecs(job.definition(), assets.train_graph().parameters, costs));
  // Planned memory has no room for a second net: computing then counts as taking no time.
  if (settings.device_memory_budget() == 0) {
    TAUT_TRY(const double compute_s, measure_compute(job, assets, device));
    costs.set_compute_s(compute_s);
  }
  log::info(
      "measured for compression AUTO: {:.3g} MB/s to the servers, {:.3g} ms to compute a clock",
      costs.bytes_per_s() / 1e6, 1e3 * costs.compute_s());
  return ok();
}

/// Waits for the choice from all workers' measurements; nullopt if this worker must stop or leave
/// first.
std::optional<pb::Compression> await_choice(RunOrders& orders, const pb::CompressionCosts& costs) {
  orders.choice.set_measured(costs);
  while (!orders.stop && !orders.leave) {
    if (auto chosen = orders.choice.chosen()) return chosen;
    std::this_thread::sleep_for(kChoiceStep);
  }
  return std::nullopt;
}

}  // namespace

Result<JobOutcome> run_job(const pb::WorkerJob& job, std::span<Backend* const> devices,
                           ZmqContext& context, const pb::ClusterConfig& config, RunOrders& orders,
                           ProgressBoard& board, StateSaver& saver) {
  if (!config.worker().pin().empty()) {
    TAUT_TRY(pin_this_thread(config.worker().pin()));
  }
  const auto count = static_cast<std::uint32_t>(devices.size());
  const bool is_open = chooses_compression(job.definition());
  pb::CompressionCosts costs;
  // First, at the same time as the other workers.
  if (is_open) {
    costs.set_bytes_per_s(
        measure_bandwidth(context, job, config.worker().shared_memory(), orders.stop));
  }
  TAUT_TRY(const JobAssets assets, JobAssets::open(job.definition(), job.slots(), count));
  ProcessPlace place(context, orders, config);
  if (!is_open) return run_member(job, assets, devices, place, config, orders, board, saver);
  TAUT_TRY(measure(job, assets, *devices[0], config.worker(), costs));
  const auto chosen = await_choice(orders, costs);
  if (!chosen) return JobOutcome{Clock(job.start_clock()), {}, !orders.stop};
  pb::WorkerJob settled = job;
  *settled.mutable_definition()->mutable_compression() = *chosen;
  return run_member(settled, assets, devices, place, config, orders, board, saver);
}

}  // namespace taut::worker
