#include "lab/schedule/policies/live.hpp"
#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// First in, first out: a job that does not fit holds back all later ones. The coordinator's FIFO
/// lets later jobs fill gaps; to prevent that, it sees no job behind the first that must wait.
/// Source    Feitelson and Rudolph, "Parallel Job Scheduling: Issues and Approaches", JSSPP 1995
class Fifo : public LivePolicy {
 public:
  Fifo() : LivePolicy(pb::SchedulingConfig::FIFO) {}

  [[nodiscard]] Promise promise() const override { return {.keeps_order = true}; }

 private:
  [[nodiscard]] std::vector<JobIndex> candidates(const View& view) const override {
    std::vector<JobIndex> jobs;
    Parts idle = view.idle_parts();
    for (const JobIndex job : view.active()) {
      if (view.is_running(job)) continue;
      if (view.job(job).all_parts() > idle) break;
      idle -= view.job(job).all_parts();
      jobs.push_back(job);
    }
    return jobs;
  }
};

}  // namespace

std::unique_ptr<Policy> make_fifo() {
  return std::make_unique<Fifo>();
}

}  // namespace taut::schedule
