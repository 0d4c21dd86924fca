#include "worker/test_phases.hpp"

#include <utility>

#include "common/log.hpp"

namespace taut::worker {

Result<std::unique_ptr<TestPhases>> TestPhases::create(const JobAssets& assets, Backend& backend) {
  if (assets.test_count() == 0) return std::unique_ptr<TestPhases>();
  std::unique_ptr<TestPhases> phases(new TestPhases());
  for (std::size_t test = 0; test < assets.test_count(); ++test) {
    const int iterations = assets.job().solver_param().test_iter(static_cast<int>(test));
    TAUT_TRY(auto evaluator, Evaluator::create(assets, backend, iterations, test));
    phases->evaluators_.push_back(std::move(evaluator));
  }
  return phases;
}

Result<TestResult> TestPhases::run(ParameterCache& cache, Clock clock, Recorder* recorder) {
  TestResult first;
  for (std::size_t test = 0; test < evaluators_.size(); ++test) {
    TAUT_TRY(TestResult result, evaluators_[test]->run(cache));
    result.clock = clock;
    if (test == 0) {
      first = result;
      log::info("iteration {}: test accuracy {:.4f}, loss {:.4f}", clock.value(), result.accuracy,
                result.loss);
    } else {
      log::info("iteration {}: test phase {}: accuracy {:.4f}, loss {:.4f}", clock.value(),
                test + 1, result.accuracy, result.loss);
    }
  }
  if (recorder != nullptr) recorder->on_test({clock, first.accuracy, first.loss});
  return first;
}

}  // namespace taut::worker
