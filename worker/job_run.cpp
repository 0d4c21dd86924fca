#include "worker/job_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/files/sha256.hpp"
#include "common/log.hpp"
#include "common/net/reach.hpp"
#include "common/ssp/row_buckets.hpp"
#include "common/system/affinity.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_balance.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/session/coordinator_addresses.hpp"
#include "proto/session/data_secret.hpp"
#include "worker/client/client.hpp"
#include "worker/compression/scheme_costs.hpp"
#include "worker/device/device_budget.hpp"
#include "worker/device/math_options.hpp"
#include "worker/device/pinned_memory.hpp"
#include "worker/device/pinned_peers.hpp"
#include "worker/evaluation/test_phases.hpp"
#include "worker/job_cache.hpp"
#include "worker/model/row_parameters.hpp"
#include "worker/records/recorder.hpp"
#include "worker/run_state.hpp"
#include "worker/training/straggle.hpp"

namespace taut::worker {
namespace {

constexpr Duration kFinalWait{600'000'000};
constexpr Duration kHeldStep{1'000};

/// device  must outlive the job
/// Errors    invalid: a compression that does not fit the job
Result<ClientOptions> client_options(const pb::WorkerJob& job, const pb::WorkerConfig& settings,
                                     Backend& device, const ProgressBoard& board, RunPlace& place,
                                     const RunOrders& orders) {
  ClientOptions options;
  if (job.definition().balance()) {
    options.weight = [&shares = orders.shares](Clock clock) { return shares.weight(clock); };
  }
  TAUT_TRY(options.encoding.compression, to_compression(job.definition()));
  options.encoding.seed = job.definition().seed();
  options.encoding.slot = job.slot();
  options.own_thread = place.has_threads();
  options.time = &place.pace();
  // Only other threads look at it.
  options.load = place.has_threads() ? board.load() : nullptr;
  options.job = JobId(job.job());
  options.worker = WorkerId(job.worker());
  options.incarnation = Incarnation(job.incarnation());
  options.job_hash = job_hash(job.definition());
  options.shards = shard_addresses(job);
  options.replicated = job.replicated();
  options.max_kept = Bytes(job.kept_bytes());
  options.send.order = settings.send_order() == pb::WorkerConfig::AS_READY ? SendOrder::kAsReady
                                                                           : SendOrder::kFrontFirst;
  options.send.window = Bytes(settings.send_window());
  options.update_memory = update_memory(device);
  options.pool = place.update_pool();
  options.pinning = peer_pinning(device);
  options.shared_memory = open_arena(settings, device);
  return options;
}

Straggle straggle_of(StragglePlan plan) {
  if (plan.empty()) return {};
  return [plan = std::move(plan)](Clock clock, Duration compute) {
    return straggle_wait(plan, clock, compute);
  };
}

/// The endpoint for the shards, with the network faults of an experiment.
std::unique_ptr<Endpoint> open_endpoint(RunPlace& place, const pb::WorkerJob& job,
                                        const pb::WorkerConfig& settings) {
  auto endpoint = place.make_endpoint();
  endpoint->use_token(to_token(job.secret()));
  const LinkFaults faults = link_faults(job.definition(), settings);
  if (faults.none()) return endpoint;
  const std::uint64_t seed = job.definition().seed() * 1024 + job.slot();
  return std::make_unique<FaultyEndpoint>(std::move(endpoint), faults, seed,
                                          [&pace = place.pace()] { return pace.now(); });
}

/// Ends the client's waits when the job must stop, and tells it where shards have moved.
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

/// Names a run's client to its surroundings.
class ClientUse {
 public:
  ClientUse(RunPlace& place, Client& client) : place_(place) { place.use(&client); }
  ~ClientUse() { place_.use(nullptr); }
  ClientUse(const ClientUse&) = delete;
  ClientUse& operator=(const ClientUse&) = delete;

 private:
  RunPlace& place_;
};

/// Errors    invalid: the batch of a balanced job cannot change here
Result<void> check_balanced(const pb::WorkerJob& job, const pb::WorkerConfig& settings) {
  if (!job.definition().balance()) return ok();
  if (settings.device_memory_budget() > 0) {
    return invalid(
        "balance: memory is planned for one size of batches, and balance changes it; omit "
        "worker.device_memory_budget or the job's balance");
  }
  return ok();
}

/// The part of a batch with which a run of a balanced job starts; its first clock may be held.
Result<BatchShares::Part> first_part(const pb::WorkerJob& job) {
  TAUT_TRY(const BatchShares shares, to_batch_shares(job.definition(), job.slots(), job.shares()));
  if (job.slot() >= job.slots()) {
    return invalid(fmt::format("balance: slot {} of {}, which the job does not have", job.slot(),
                               job.slots()));
  }
  return shares.part(Clock(job.start_clock()), job.slot());
}

/// Of a place, but for the part of a balanced job.
ReplicaOptions replica_options(RunPlace& place) {
  ReplicaOptions options;
  options.loading = place.has_threads() ? data::Loading::kAhead : data::Loading::kOnRequest;
  options.has_data = place.learns();
  options.net = place.shared_net();
  return options;
}

/// Of an equal share.
double share_of(const BatchShares::Part& part, const JobAssets& assets) {
  return static_cast<double>(part.records) / static_cast<double>(assets.train_batch());
}

/// A replica of the training net on each device.
Result<std::vector<Replica>> make_replicas(const pb::WorkerJob& job, const JobAssets& assets,
                                           std::span<Backend* const> devices, RunPlace& place) {
  ReplicaOptions sharing = replica_options(place);
  const Clock start(job.start_clock());
  if (job.definition().balance()) {
    TAUT_TRY(sharing.part, first_part(job));
  }
  std::vector<Replica> replicas;
  for (std::uint32_t i = 0; i < devices.size(); ++i) {
    devices[i]->set_math(math_options(job.definition().solver_param()));
    TAUT_TRY(Replica replica,
             assets.make_replica(*devices[i], job.slot(), job.slots(), start, i, sharing));
    replicas.push_back(std::move(replica));
  }
  return replicas;
}

/// The trainer's options of a member: the job's, and what its share and its place add.
Trainer::Options member_options(const pb::WorkerJob& job, const pb::WorkerConfig& settings,
                                RunPlace& place) {
  Trainer::Options options = trainer_options(job.definition());
  options.pace = &place.pace();
  if (place.shared_net()) options.arithmetic = Trainer::Arithmetic::kAtOnce;
  if (!place.learns()) options.arithmetic = Trainer::Arithmetic::kNone;
  options.start = Clock(job.start_clock());
  options.rank = job.worker();
  options.measures_batches = job.definition().balance();
  options.straggle =
      straggle_of(straggle_plan(job.definition(), settings, job.slot(), job.slots()));
  return options;
}

/// Changes the batches of a balanced job's run where its shares change. All arguments outlive the
/// run.
Result<void> balance(Trainer::Options& options, const pb::WorkerJob& job, const JobAssets& assets,
                     std::vector<Replica>& replicas, RunState& state, RunOrders& orders,
                     RunPlace& place) {
  if (!job.definition().balance()) return ok();
  TAUT_TRY(const BatchShares::Part first, first_part(job));
  const auto part = std::make_shared<BatchShares::Part>(first);  // of which the replicas are
  Pace& pace = *options.pace;
  pace.set_share(share_of(first, assets));
  options.changes_batch = [part, &orders, &pace](Clock clock) -> Result<bool> {
    while (true) {
      TAUT_TRY(const auto begun, orders.shares.begin(clock));
      if (begun) return std::exchange(*part, *begun) != *begun;
      if (orders.stop) {
        return make_error(ErrorCode::kClosed, "stopped while the shares of a clock were decided");
      }
      pace.sleep(kHeldStep);
    }
  };
  options.change_batch = [part, &job, &assets, &replicas, &state, &place,
                          &pace](Clock clock) -> Result<void> {
    log::info("{} of {} records of a batch from clock {} on", part->records, part->total,
              clock.value());
    TAUT_TRY(assets.change_part(replicas[0], job.slot(), clock, *part, replica_options(place)));
    pace.set_share(share_of(*part, assets));
    state.use(replicas);
    return ok();
  };
  return ok();
}

/// When a member that is to leave does so: where nothing of its training is lost with it.
std::function<bool(Clock)> leaving_rule(const RunOrders& orders, Client& client, Clock start,
                                        PushSchedule schedule) {
  return [&orders, &client, start, schedule](Clock next) {
    // Between two pushes its own training would be lost.
    if (!orders.leave || (next != start && !schedule.pushes_at(next - 1))) return false;
    // Without one more clock what compression has left out of its updates would be lost.
    if (!client.leaves_out() || client.sends_rest()) return true;
    client.send_rest();
    return false;
  };
}

Result<void> run_last_test(TestPhases& tests, ParameterCache& cache, Clock reached,
                           Recorder* recorder, const std::atomic<bool>& stop,
                           const DivergenceRule& divergence, ProgressBoard& board) {
  TAUT_TRY(const TestResult result, tests.run(cache, reached, recorder, stop));
  ProgressReport report = board.read();
  report.tests.push_back(result);
  board.post(report);
  return divergence.check("the loss of the test", result.loss, reached, board);
}

/// What the schemes of a job whose compression is AUTO depend on here, but for the link.
Result<void> measure(const pb::WorkerJob& job, const JobAssets& assets, Backend& device,
                     const pb::WorkerConfig& settings, pb::CompressionCosts& costs) {
  TAUT_TRY(measure_codecs(job.definition(), assets.train_graph().parameters, costs));
  // Memory that is planned has no place for a second net: as if computing took no time.
  if (settings.device_memory_budget() == 0) {
    TAUT_TRY(const double compute_s, measure_compute(job, assets, device));
    costs.set_compute_s(compute_s);
  }
  log::info(
      "measured for compression AUTO: {:.3g} MB/s to the servers, {:.3g} ms to compute a clock",
      costs.bytes_per_s() / 1e6, 1e3 * costs.compute_s());
  return ok();
}

/// The choice of all workers' measurements; nothing: this worker is to stop or to leave first.
std::optional<pb::Compression> await_choice(RunOrders& orders, const pb::CompressionCosts& costs) {
  orders.choice.set_measured(costs);
  while (!orders.stop && !orders.leave) {
    if (auto chosen = orders.choice.chosen()) return chosen;
    std::this_thread::sleep_for(kHeldStep);
  }
  return std::nullopt;
}

/// The rows of a table by rows that a digest reads: all, or as many as fit in 4 MiB, evenly over
/// the table.
std::vector<std::uint64_t> digested_rows(const TableSpec& table) {
  constexpr std::uint64_t kMaxValues = 1UL << 20U;
  if (!table.rows) return {};
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t most = std::min<std::uint64_t>(kMaxValues / table.width(), kMaxRowsOfItem);
  const std::uint64_t count = std::min(all, std::max<std::uint64_t>(most, 1));
  std::vector<std::uint64_t> rows(count);
  for (std::uint64_t i = 0; i < count; ++i) rows[i] = i * (all / count) + i * (all % count) / count;
  return rows;
}

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

Result<std::unique_ptr<Recorder>> open_recorder(const pb::WorkerJob& job,
                                                const pb::ClusterConfig& config, RunPlace& place,
                                                ProgressBoard& board) {
  TAUT_TRY(std::unique_ptr<Recorder> recorder,
           Recorder::open(config.records(), config.worker().name(), JobId(job.job()), job.token(),
                          Clock(job.start_clock()), place.pace()));
  if (recorder && config.records().metrics()) {
    board.set_metrics_file(recorder->folder() / "metrics.csv");
  }
  return recorder;
}

/// Workers that exchange among themselves send more after the last clock was recorded.
Result<void> flush(ParameterCache& cache, Duration limit, ProgressBoard& board) {
  TAUT_TRY(cache.flush(limit));
  ProgressReport last = board.read();
  last.disagreement = cache.disagreement();
  last.traffic.pushed = cache.traffic().pushed;
  board.post(last);
  return ok();
}

}  // namespace

std::vector<ShardAddress> shard_addresses(const pb::WorkerJob& job) {
  std::vector<ShardAddress> shards;
  for (const pb::ShardInfo& shard : job.shards()) {
    shards.push_back({ShardId(shard.shard()), shard.address(), shard.term()});
  }
  return shards;
}

Trainer::Options trainer_options(const pb::Job& job) {
  const pb::SolverParameter& solver = job.solver_param();
  Trainer::Options options;
  options.divergence = DivergenceRule(job);
  options.end = Clock(solver.max_iter());
  options.batches = solver.iter_size();
  options.average_loss = solver.average_loss();
  options.display = solver.display();
  options.test_interval = solver.test_interval();
  options.test_initialization = solver.test_initialization();
  return options;
}

Result<std::string> digest_parameters(ParameterCache& cache, const model::Graph& graph, Clock until,
                                      Duration wait, const std::atomic<bool>& stop,
                                      const DivergenceRule& divergence, ProgressBoard& board,
                                      Pace& pace) {
  Sha256 digest;
  std::vector<float> values;
  const std::vector<TableSpec> tables = model::served_tables(graph);
  for (const TableSpec& table : tables) {
    const std::vector<std::uint64_t> rows = digested_rows(table);
    values.resize(table.rows ? rows.size() * table.width() : table.count());
    Clock newest(-1);
    TimePoint deadline;
    while (true) {
      TAUT_TRY(const Clock version, table.rows ? cache.snapshot_rows(table.id, rows, values)
                                               : cache.snapshot(table.id, values));
      if (version >= until || table.kind == TableKind::kFrozen) break;
      if (version > newest) deadline = pace.now() + wait;
      newest = std::max(newest, version);
      if (stop) return make_error(ErrorCode::kClosed, "stopped while other workers were training");
      if (pace.now() > deadline) {
        return make_error(ErrorCode::kTimeout,
                          fmt::format("table \"{}\" has been at clock {} of {} for {:.0f} s: "
                                      "another worker has not finished",
                                      table.name, version.value(), until.value(), seconds(wait)));
      }
      pace.sleep(std::chrono::milliseconds(10));
    }
    TAUT_TRY(divergence.check(table.name, values, until, board));
    digest.update(std::as_bytes(std::span(values)));
  }
  return digest.finish();
}

Result<JobOutcome> run_job(const pb::WorkerJob& job, std::span<Backend* const> devices,
                           ZmqContext& context, const pb::ClusterConfig& config, RunOrders& orders,
                           ProgressBoard& board, StateSaver& saver) {
  if (!config.worker().pin().empty()) {
    TAUT_TRY(pin_this_thread(config.worker().pin()));
  }
  const auto count = static_cast<std::uint32_t>(devices.size());
  const bool is_open = chooses_compression(job.definition());
  pb::CompressionCosts costs;
  // First, while the other workers do so.
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

Result<JobOutcome> run_member(const pb::WorkerJob& job, const JobAssets& assets,
                              std::span<Backend* const> devices, RunPlace& place,
                              const pb::ClusterConfig& config, RunOrders& orders,
                              ProgressBoard& board, StateSaver& saver) {
  const pb::WorkerConfig& settings = config.worker();
  const model::Graph& graph = assets.train_graph();
  const Clock start(job.start_clock());
  const BudgetedBackend budgeted(*devices[0], Bytes(settings.device_memory_budget()));
  std::vector<Backend*> backends(devices.begin(), devices.end());
  backends[0] = &budgeted.backend();
  TAUT_TRY(check_balanced(job, settings));
  TAUT_TRY(std::vector<Replica> replicas, make_replicas(job, assets, backends, place));
  TAUT_TRY(const ClientOptions options_of_client,
           client_options(job, settings, *devices[0], board, place, orders));
  Client client(open_endpoint(place, job, settings), options_of_client);
  const ClientUse use(place, client);
  TAUT_TRY(auto cache, open_cache(client, backends, graph, job, settings, place, orders));
  std::unique_ptr<TestPhases> tests;
  if (job.evaluates() && place.learns()) {
    TAUT_TRY(tests, TestPhases::create(assets, *backends[0], place.pace()));
  }
  TAUT_TRY(const std::unique_ptr<Recorder> recorder, open_recorder(job, config, place, board));
  RunState state(job, replicas, client, *cache, saver, silence_limit(job));
  TAUT_TRY(state.restore(graph.parameters.size()));
  TAUT_TRY(const Policies policies, to_policies(job.definition()));
  Trainer::Options options = member_options(job, settings, place);
  options.recorder = recorder.get();
  options.leaves = leaving_rule(orders, client, start, policies.schedule());
  options.may_train = [&orders](Clock clock) { return orders.last_clocks.begin(clock); };
  state.attach_to(options);
  TAUT_TRY(balance(options, job, assets, replicas, state, orders, place));
  const Clock end = options.end;
  Trainer trainer(replicas, *cache, tests.get(), std::move(options), board);
  TAUT_TRY(const Clock reached, trainer.run(orders.stop));
  if (const std::string use = budgeted.summary(); !use.empty()) log::info("{}", use);
  if (orders.stop) return JobOutcome{reached, {}, false};
  const bool has_left = reached < end;
  if (!has_left) {
    TAUT_TRY(state.finish(reached));
  }
  TAUT_TRY(flush(*cache, silence_limit(job), board));
  JobOutcome outcome{reached, {}, has_left};
  if (has_left || !orders.evaluates || !place.learns()) return outcome;
  if (!job.evaluates()) {
    // The worker that was to do it has left.
    TAUT_TRY(tests, TestPhases::create(assets, *backends[0], place.pace()));
  }
  const DivergenceRule divergence(job.definition());
  TAUT_TRY(outcome.parameters_sha256,
           digest_parameters(*cache, graph, reached, kFinalWait, orders.stop, divergence, board,
                             place.pace()));
  if (tests != nullptr) {
    TAUT_TRY(
        run_last_test(*tests, *cache, reached, recorder.get(), orders.stop, divergence, board));
  }
  return outcome;
}

}  // namespace taut::worker
