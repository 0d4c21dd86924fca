#include "worker/local_run.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "common/log.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_words.hpp"
#include "proto/config/settle_balance.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/device/device_budget.hpp"
#include "worker/device/math_options.hpp"
#include "worker/job_run.hpp"
#include "worker/parameter_digest.hpp"

namespace taut::worker {
namespace {

/// How parameters that exist only in this process are initialized and updated.
Result<LocalCache::Options> cache_options(const pb::Job& job, const LocalRunOptions& options) {
  LocalCache::Options cache;
  cache.seed = job.seed();
  cache.replicas = options.replicas;
  cache.budget = options.budget;
  cache.sum = job.reduction() == pb::Job::SUM;
  TAUT_TRY(cache.rule, to_update_rule(job));
  return cache;
}

/// Errors    invalid: the job needs servers
Result<void> check_fits_one_process(const pb::Job& job) {
  TAUT_TRY(const Policies policies, to_policies(job));
  if (policies.find<Averaging>() != nullptr) {
    return invalid(
        "the job averages over workers that have their own parameters, which a single process does "
        "not have; train it with a server, e.g. with \"tautline train\"");
  }
  TAUT_TRY(const Compression compression, to_compression(job));
  if (!compression.is_off()) {
    log::warn(
        "compression is for updates and values on their way to and from a server; without one "
        "nothing is encoded");
  }
  return ok();
}

void print_training(const JobWords& words, Clock reached, const ProgressReport& report) {
  const double trained_s =
      report.first_iteration ? seconds(report.last_iteration - *report.first_iteration) : 0;
  const double items = words.items_per_record * static_cast<double>(report.images);
  std::printf("iterations: %lld\nloss: %.6f\n%s: %.1f\n", static_cast<long long>(reached.value()),
              report.loss, words.rate().c_str(), trained_s > 0 ? items / trained_s : 0.0);
}

void print_test(const JobWords& words, const TestResult& result) {
  if (result.accuracy) std::printf("test accuracy: %.4f\n", *result.accuracy);
  std::printf("test loss: %.6f\n", result.loss);
  if (words.has_perplexity) std::printf("test perplexity: %.3f\n", std::exp(result.loss));
}

}  // namespace

Result<void> run_locally(const pb::Job& job, Backend& device, const LocalRunOptions& options) {
  TAUT_TRY(check_fits_one_process(job));
  const std::uint32_t replicas = options.replicas;
  const BudgetedBackend budgeted(device, options.budget);
  Backend& backend = budgeted.backend();
  TAUT_TRY(const JobAssets assets, JobAssets::open(job, replicas));
  if (const auto rows = model::row_parameters(assets.train_graph()); !rows.empty()) {
    return invalid(fmt::format(
        "layer \"{}\": embed_param.by_rows keeps rows at servers, and a single process has none; "
        "train with servers, e.g. with \"tautline train\", or omit by_rows",
        rows[0].layer));
  }
  backend.set_math(math_options(job.solver_param()));
  TAUT_TRY(const LocalCache::Options options_of_cache, cache_options(job, options));
  LocalCache cache(backend, assets.train_graph().parameters, options_of_cache);
  TAUT_TRY(cache.read_origins());
  std::vector<Replica> copies;
  for (std::uint32_t slot = 0; slot < replicas; ++slot) {
    ReplicaOptions own;
    if (job.balance()) {
      // In one process all shares are equal.
      TAUT_TRY(const BatchShares shares, to_batch_shares(job, replicas, {}));
      own.part = shares.part(Clock(0), slot);
    }
    TAUT_TRY(Replica replica, assets.make_replica(backend, slot, replicas, Clock(0), 0, own));
    copies.push_back(std::move(replica));
  }
  TAUT_TRY(const std::unique_ptr<TestPhases> tests, TestPhases::create(assets, backend));
  ProgressBoard board;
  Trainer::Options training = trainer_options(job);
  const DivergenceRule divergence = DivergenceRule::without_servers(job);
  training.divergence = divergence;
  if (options.only_plan) training.end = training.start;
  pb::RecordsConfig records;
  records.set_folder(options.records);
  records.set_metrics(!options.records.empty() && !options.only_plan);
  TAUT_TRY(const std::unique_ptr<Recorder> recorder,
           Recorder::open(records, "alone", JobId(0), std::random_device()(), training.start));
  training.recorder = recorder.get();
  Trainer trainer(copies, cache, tests.get(), training, board);
  std::atomic<bool> stop = false;
  TAUT_TRY(const Clock reached, trainer.run(stop));
  if (options.only_plan) {
    std::fputs(budgeted.table().c_str(), stdout);
    return ok();
  }

  const JobWords words = words_of(job);
  print_training(words, reached, board.read());
  if (tests != nullptr) {
    TAUT_TRY(const TestResult result, tests->run(cache, reached, recorder.get(), stop));
    print_test(words, result);
    TAUT_TRY(divergence.check("the loss of the test", result.loss, reached, board));
  }
  TAUT_TRY(const std::string digest, digest_parameters(cache, assets.train_graph(), reached,
                                                       Duration(0), stop, divergence, board));
  std::printf("parameters sha256: %s\n", digest.c_str());
  if (const std::string use = budgeted.summary(); !use.empty()) std::printf("%s\n", use.c_str());
  return ok();
}

}  // namespace taut::worker
