#include "worker/job_run.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/log.hpp"
#include "common/net/faulty_endpoint.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_words.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/session/data_secret.hpp"
#include "worker/balanced_replicas.hpp"
#include "worker/client/client.hpp"
#include "worker/device/device_budget.hpp"
#include "worker/device/pinned_memory.hpp"
#include "worker/device/pinned_peers.hpp"
#include "worker/evaluation/test_phases.hpp"
#include "worker/job_cache.hpp"
#include "worker/parameter_digest.hpp"
#include "worker/records/recorder.hpp"
#include "worker/run_state.hpp"
#include "worker/training/straggle.hpp"

namespace taut::worker {
namespace {

constexpr Duration kFinalWait{600'000'000};

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
  // Only other threads read it.
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

/// Registers a run's client with its place.
class ClientUse {
 public:
  ClientUse(RunPlace& place, Client& client) : place_(place) { place.use(&client); }
  ~ClientUse() { place_.use(nullptr); }
  ClientUse(const ClientUse&) = delete;
  ClientUse& operator=(const ClientUse&) = delete;

 private:
  RunPlace& place_;
};

/// A member's trainer options: the job's, plus those that follow from its share and its place.
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

/// Decides when a member that must leave does so: at a clock where none of its training is lost.
std::function<bool(Clock)> leaving_rule(const RunOrders& orders, Client& client, Clock start,
                                        PushSchedule schedule) {
  return [&orders, &client, start, schedule](Clock next) {
    // Between two pushes its own training since the last one would be lost.
    if (!orders.leave || (next != start && !schedule.pushes_at(next - 1))) return false;
    // Needs one more clock: what compression has left out of its updates would be lost otherwise.
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

/// Flushes the cache: workers that exchange among themselves send more after the last clock was
/// recorded.
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
  options.words = words_of(job);
  options.test_interval = solver.test_interval();
  options.test_initialization = solver.test_initialization();
  return options;
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
    TAUT_TRY(tests, TestPhases::create(assets, *backends[0], place.pace(), job.token()));
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
    // The worker that was assigned to evaluate has left.
    TAUT_TRY(tests, TestPhases::create(assets, *backends[0], place.pace(), job.token()));
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
