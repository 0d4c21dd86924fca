#include "worker/job_cache.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/log.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_policies.hpp"
#include "worker/cache/averaging_cache.hpp"
#include "worker/cache/group_cache.hpp"
#include "worker/cache/replicated_cache.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/collective/job_exchange.hpp"
#include "worker/device/math_options.hpp"
#include "worker/device/pinned_parts.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::worker {
namespace {

// If a rank's clock takes longer, its group is formed again, which costs little. The coordinator
// reports ranks that are lost.
constexpr Duration kSumLimit = std::chrono::minutes(10);
constexpr double kSilenceLimitS = 60;  // if the coordinator sets none

/// Opens the cache of a worker that sums or averages with the others.
Result<std::unique_ptr<ParameterCache>> open_group_cache(Client& client, Backend& backend,
                                                         const std::vector<TableSpec>& tables,
                                                         const pb::WorkerJob& job,
                                                         const pb::WorkerConfig& settings,
                                                         RunPlace& place, RunOrders& orders) {
  if (settings.device_memory_budget() > 0) {
    return invalid(
        "exchange: memory is planned for one order of copies, and workers that exchange among "
        "themselves change it when one comes or goes; omit worker.device_memory_budget or the "
        "job's exchange");
  }
  TAUT_TRY(const Policies policies, to_policies(job.definition()));
  GroupCache::Options options;
  options.start = Clock(job.start_clock());
  TAUT_TRY(options.rule, to_update_rule(job.definition()));
  options.schedule = policies.schedule();
  options.wait = silence_limit(job);
  options.group.job = job.token();
  options.group.first = options.start;
  options.group.algorithm = collective::algorithm_of(job.definition().exchange());
  options.group.graph = collective::graph_of(job.definition());
  options.group.asynchronous =
      gossips(job.definition()) && job.definition().exchange().asynchronous();
  options.group.seed = job.definition().seed();
  options.group.limit = std::max<Duration>(options.wait, kSumLimit);
  options.group.stops = [&orders] { return orders.stop.load(); };
  options.group.time = &place.pace();
  options.group.has_thread = place.has_threads();
  options.group.shared_memory = open_arena(settings, backend);
  TAUT_TRY(collective::RankEndpoint rank, place.listen_as_rank(orders.ranks));
  TAUT_TRY(auto cache, GroupCache::open(client, backend, tables, std::move(options),
                                        std::move(rank), orders.ranks));
  place.work_with([cache = cache.get()] { cache->work(); });
  return std::unique_ptr<ParameterCache>(std::move(cache));
}

/// Opens the cache of one device: for shared parameters, or under averaging the worker's own.
Result<std::unique_ptr<ParameterCache>> open_device_cache(Client& client, Backend& backend,
                                                          const model::Graph& graph,
                                                          const pb::WorkerJob& job,
                                                          const pb::WorkerConfig& settings,
                                                          RunPlace& place, RunOrders& orders) {
  const std::vector<TableSpec> tables = model::served_tables(graph);
  const Clock start(job.start_clock());
  TAUT_TRY(const Policies policies, to_policies(job.definition()));
  TAUT_TRY(const math::UpdateRule rule, to_update_rule(job.definition()));
  const auto* averaging = policies.find<Averaging>();
  if (exchanges_at_workers(job.definition())) {
    return open_group_cache(client, backend, tables, job, settings, place, orders);
  }
  if (averaging == nullptr) {
    ServedCache::Options options;
    options.start = start;
    options.wait = silence_limit(job);
    options.norm = rule.update_norm();
    options.overlap = settings.overlap();
    options.catches_up = policies.backup_workers() > 0;
    options.batch_rows = model::batch_rows(graph);
    auto store = place.make_store(client, options);
    TAUT_TRY(auto cache, store
                             ? ServedCache::open(client, backend, tables, options, std::move(store))
                             : ServedCache::open(client, backend, tables, options));
    return std::unique_ptr<ParameterCache>(std::move(cache));
  }
  AveragingCache::Options options;
  options.start = start;
  options.wait = silence_limit(job);
  options.rule = rule;
  options.exchange = averaging->exchange();
  options.schedule = averaging->schedule();
  options.budget = Bytes(settings.device_memory_budget());
  // As in the paper: the moving rates add up to 0.9.
  options.moving_rate = averaging->moving_rate() > 0
                            ? averaging->moving_rate()
                            : 0.9F / static_cast<float>(std::max(1U, job.slots()));
  TAUT_TRY(auto cache, AveragingCache::open(client, backend, tables, options));
  return std::unique_ptr<ParameterCache>(std::move(cache));
}

}  // namespace

std::shared_ptr<SharedArena> open_arena(const pb::WorkerConfig& settings, Backend& device) {
  if (!settings.shared_memory()) return nullptr;
  auto arena = SharedArena::create(Bytes(0), pinning(device));
  if (arena) return std::move(arena.value());
  log::warn("payloads are sent as bytes, even on one machine: {}", arena.error().message);
  return nullptr;
}

Duration silence_limit(const pb::WorkerJob& job) {
  return from_seconds(job.silence_limit_s() > 0 ? job.silence_limit_s() : kSilenceLimitS);
}

Result<std::unique_ptr<ParameterCache>> open_cache(Client& client,
                                                   std::span<Backend* const> devices,
                                                   const model::Graph& graph,
                                                   const pb::WorkerJob& job,
                                                   const pb::WorkerConfig& settings,
                                                   RunPlace& place, RunOrders& orders) {
  TAUT_TRY(auto first, open_device_cache(client, *devices[0], graph, job, settings, place, orders));
  if (devices.size() == 1) return first;
  ReplicatedCache::Options options;
  options.overlap = settings.overlap();
  const bool deterministic = math_options(job.definition().solver_param()).deterministic;
  options.order = deterministic ? GroupOrder::kMembers : GroupOrder::kAny;
  auto cache =
      std::make_unique<ReplicatedCache>(std::move(first), devices, graph.parameters, options);
  log::info("{} devices share the batch; their gradients are exchanged with {}", devices.size(),
            cache->description());
  return std::unique_ptr<ParameterCache>(std::move(cache));
}

}  // namespace taut::worker
