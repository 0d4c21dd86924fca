#include <map>
#include <utility>
#include <vector>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Shortest remaining time first without known durations: a job is expected to take the mean of
/// ended jobs of its net and size, or if there are none, the mean of all ended jobs. A job that has
/// run for longer than expected is expected to run for as long again.
/// Source    Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale
///           GPU Datacenters", SC 2021, section 4.2: predicting durations from history; the
///           predictor here is a mean, not the paper's trees
class PredictedShortestRemaining : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.conserves_work = true}; }
  [[nodiscard]] bool counts_shares() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    learn(view);
    std::vector<std::pair<double, JobIndex>> keyed;
    for (const JobIndex job : view.active()) {
      const double ran = view.held_s(job);
      const double expected = expected_s(view.job(job));
      keyed.emplace_back(expected > ran ? expected - ran : ran, job);
    }
    known_ = view.active();
    return fill_by_key(view, std::move(keyed));
  }

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
  };
  using Kind = std::pair<std::size_t, std::uint32_t>;  // net, devices

  /// From the jobs that have ended since the last decision.
  void learn(const View& view) {
    for (const JobIndex job : known_) {
      if (view.state(job).phase != Phase::kEnded) continue;
      for (Mean* mean : {&of_kind_[{view.job(job).model, view.job(job).workers}], &of_all_}) {
        mean->sum += view.held_s(job);
        mean->count += 1;
      }
    }
  }

  [[nodiscard]] double expected_s(const Job& job) const {
    const auto found = of_kind_.find({job.model, job.workers});
    const Mean& mean = found == of_kind_.end() ? of_all_ : found->second;
    return mean.count == 0 ? 0 : mean.sum / mean.count;
  }

  std::map<Kind, Mean> of_kind_;
  Mean of_all_;
  std::vector<JobIndex> known_;  // active at the last decision
};

}  // namespace

std::unique_ptr<Policy> make_srtf_predicted() {
  return std::make_unique<PredictedShortestRemaining>();
}

}  // namespace taut::schedule
