#include "lab/training/costs/learning_target.hpp"

#include <algorithm>

#include "lab/training/training_run.hpp"

namespace taut::lab {
namespace {

/// Whether one test is nearer to the target than another.
bool is_better(const LearningTarget& target, const Playback::Test& one,
               const Playback::Test& other) {
  if (target.loss) return one.loss < other.loss;
  return one.accuracy.value_or(0) > other.accuracy.value_or(0);
}

}  // namespace

bool LearningTarget::is_reached(const Playback::Test& test) const {
  if (accuracy) return test.accuracy && *test.accuracy >= *accuracy;
  return loss && test.loss <= *loss;
}

Result<TargetRun> train_to_target(const ScalingOptions& options, std::uint32_t workers, Slack slack,
                                  const LearningTarget& target,
                                  const std::function<bool()>& proceed) {
  if (options.job.solver_param().test_interval() <= 0) {
    return invalid("a target needs tests: set test_interval in the job's solver");
  }
  TargetRun run{.workers = workers, .slack = slack};
  TAUT_TRY(const auto topology,
           Topology::make(options.cluster, options.servers, workers, options.job.seed()));
  run.price_per_hour = topology->price_per_hour();
  Playback playback;
  const auto reached = [&] {
    return std::ranges::find_if(playback.tests(), [&target](const Playback::Test& test) {
      return target.is_reached(test);
    });
  };
  TrainingOptions training;
  training.job = job_with(options, workers, slack);
  training.cluster = options.cluster;
  training.servers = options.servers;
  training.seed = options.job.seed();
  training.records.set_metrics(false);
  training.memory = options.memory;
  training.playback = &playback;
  training.show = [&](const pb::JobStatus&) {
    return proceed() && reached() == playback.tests().end();
  };
  const auto outcome = run_training(training);
  if (const auto found = reached(); found != playback.tests().end()) {
    run.reached = *found;
  } else if (!outcome) {
    return outcome.error();
  } else {
    run.has_failed = outcome.value().job.state() != pb::DONE;
  }
  for (const Playback::Test& test : playback.tests()) {
    if (!run.best || is_better(target, test, *run.best)) run.best = test;
  }
  return run;
}

}  // namespace taut::lab
