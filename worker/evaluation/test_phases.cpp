#include "worker/evaluation/test_phases.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "common/log.hpp"
#include "common/time.hpp"

namespace taut::worker {
namespace {

/// "accuracy 0.9, loss 0.3", without the accuracy if there is none; the net's outputs by name
/// if there are more.
std::string text_of(const TestResult& result) {
  std::string text = result.accuracy ? fmt::format("accuracy {:.4f}, ", *result.accuracy) : "";
  text += fmt::format("loss {:.4f}", result.loss);
  const std::size_t outputs = result.accuracy ? 2 : 1;
  if (result.outputs.size() <= outputs) return text;
  const char* between = " (";
  for (const OutputMeans::Mean& output : result.outputs) {
    text += fmt::format("{}{} {}", between, output.name,
                        output.is_known ? fmt::format("{:.4f}", output.value) : "-");
    between = ", ";
  }
  return text + ")";
}

}  // namespace

Result<std::unique_ptr<TestPhases>> TestPhases::create(const JobAssets& assets, Backend& backend,
                                                       Pace& pace,
                                                       std::optional<std::uint64_t> submission) {
  if (assets.test_count() == 0) return std::unique_ptr<TestPhases>();
  std::unique_ptr<TestPhases> phases(new TestPhases(pace));
  phases->is_resumed_ = assets.job().has_resume();
  for (std::size_t test = 0; test < assets.test_count(); ++test) {
    const int iterations = assets.job().solver_param().test_iter(static_cast<int>(test));
    TAUT_TRY(auto evaluator,
             Evaluator::create(assets, backend, iterations, test, pace, submission));
    phases->evaluators_.push_back(std::move(evaluator));
  }
  return phases;
}

Result<TestResult> TestPhases::run(ParameterCache& cache, Clock clock, Recorder* recorder,
                                   const std::atomic<bool>& stop) {
  const bool is_initial = clock == Clock(0) && !is_resumed_;
  const TimePoint began = pace_.now();
  TestResult first;
  for (std::size_t test = 0; test < evaluators_.size(); ++test) {
    Evaluator& evaluator = *evaluators_[test];
    TAUT_TRY(TestResult result,
             is_initial ? evaluator.run_initial(stop) : evaluator.run(cache, stop));
    result.clock = clock;
    if (test == 0) {
      first = result;
      log::info("iteration {}: test {}", clock.value(), text_of(result));
    } else {
      log::info("iteration {}: test phase {}: {}", clock.value(), test + 1, text_of(result));
    }
  }
  if (recorder == nullptr) return first;
  TestFigures figures{clock, first.accuracy, first.loss, {}, seconds(pace_.now() - began)};
  for (const OutputMeans::Mean& output : first.outputs) {
    if (output.is_known) figures.outputs.emplace_back(output.name, output.value);
  }
  recorder->on_test(figures);
  return first;
}

}  // namespace taut::worker
