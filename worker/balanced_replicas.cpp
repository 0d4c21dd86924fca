#include "worker/balanced_replicas.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "common/log.hpp"
#include "common/ssp/batch_shares.hpp"
#include "proto/config/settle_balance.hpp"
#include "worker/device/math_options.hpp"

namespace taut::worker {
namespace {

constexpr Duration kHeldStep{1'000};

/// The part of a batch with which a run of a balanced job starts; the first clock may be delayed.
Result<BatchShares::Part> first_part(const pb::WorkerJob& job) {
  TAUT_TRY(const BatchShares shares, to_batch_shares(job.definition(), job.slots(), job.shares()));
  if (job.slot() >= job.slots()) {
    return invalid(fmt::format("balance: slot {} of {}, which the job does not have", job.slot(),
                               job.slots()));
  }
  return shares.part(Clock(job.start_clock()), job.slot());
}

/// The replica options that follow from a place; a balanced job's part is not set.
ReplicaOptions replica_options(RunPlace& place) {
  ReplicaOptions options;
  options.loading = place.has_threads() ? data::Loading::kAhead : data::Loading::kOnRequest;
  options.has_data = place.learns();
  options.net = place.shared_net();
  return options;
}

/// The part's size relative to an equal share.
double share_of(const BatchShares::Part& part, const JobAssets& assets) {
  return static_cast<double>(part.records) / static_cast<double>(assets.train_batch());
}

}  // namespace

Result<void> check_balanced(const pb::WorkerJob& job, const pb::WorkerConfig& settings) {
  if (!job.definition().balance()) return ok();
  if (settings.device_memory_budget() > 0) {
    return invalid(
        "balance: memory is planned for one size of batches, and balance changes it; omit "
        "worker.device_memory_budget or the job's balance");
  }
  return ok();
}

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

Result<void> balance(Trainer::Options& options, const pb::WorkerJob& job, const JobAssets& assets,
                     std::vector<Replica>& replicas, RunState& state, RunOrders& orders,
                     RunPlace& place) {
  if (!job.definition().balance()) return ok();
  TAUT_TRY(const BatchShares::Part first, first_part(job));
  const auto part = std::make_shared<BatchShares::Part>(first);  // the replicas' current one
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

}  // namespace taut::worker
