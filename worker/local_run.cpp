#include "worker/local_run.hpp"

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

#include "proto/job_state.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/job_run.hpp"

namespace taut::worker {

Result<void> run_locally(const pb::Job& job, Backend& backend, std::uint32_t replicas) {
  const pb::SolverParameter& solver = job.solver_param();
  TAUT_TRY(const JobAssets assets, JobAssets::open(job, replicas));
  LocalCache::Options cache_options;
  cache_options.seed = job.seed();
  cache_options.replicas = replicas;
  cache_options.sum = job.reduction() == pb::Job::SUM;
  TAUT_TRY(cache_options.rule, to_update_rule(solver));
  LocalCache cache(backend, assets.train_graph().parameters, cache_options);
  TAUT_TRY(cache.read_origins());
  std::vector<Replica> copies;
  for (std::uint32_t slot = 0; slot < replicas; ++slot) {
    TAUT_TRY(Replica replica, assets.make_replica(backend, slot, replicas, Clock(0)));
    copies.push_back(std::move(replica));
  }
  std::unique_ptr<Evaluator> evaluator;
  if (assets.test_graph() != nullptr) {
    TAUT_TRY(evaluator, Evaluator::create(assets, backend, solver.test_iter(0)));
  }
  ProgressBoard board;
  Trainer trainer(copies, cache, backend, evaluator.get(), trainer_options(solver), board);
  std::atomic<bool> stop = false;
  TAUT_TRY(const Clock reached, trainer.run(stop));

  const ProgressReport report = board.read();
  const double computing = seconds(report.compute);
  std::printf("iterations: %lld\nloss: %.6f\nimages/s: %.1f\n",
              static_cast<long long>(reached.value()), report.loss,
              computing > 0 ? static_cast<double>(report.images) / computing : 0.0);
  if (evaluator != nullptr) {
    TAUT_TRY(const TestResult result, evaluator->run(cache));
    std::printf("test accuracy: %.4f\ntest loss: %.6f\n", result.accuracy, result.loss);
  }
  TAUT_TRY(const std::string digest,
           digest_parameters(cache, assets.train_graph(), reached, Duration(0), stop));
  std::printf("parameters sha256: %s\n", digest.c_str());
  return ok();
}

}  // namespace taut::worker
