#include <algorithm>
#include <cmath>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Finish-time fairness: at the end of each lease the devices are offered to the worst-treated
/// fifth of the jobs, by their time over the time with their own part of the cluster. Among those
/// the auction maximizes the product of their gains, and so the sum of the logarithms, which for
/// jobs that need all of their devices at once is nearly the order of the gain for each device.
/// What is left goes to the others, the worst treated first. The devices of a job that ends earlier
/// are auctioned at once, among the waiting jobs, until the leases end.
/// Source    Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020,
///           section 4; leases of 20 minutes and the fraction of 0.8 that is not offered are its
///           defaults. Leases all end together here.
class Themis : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.conserves_work = true}; }
  [[nodiscard]] bool counts_shares() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    constexpr double kRounding = 1e-6;
    count_contention(view);
    const bool all_end = view.now_s() >= leases_end_s_ - kRounding;
    if (all_end) leases_end_s_ = view.now_s() + kLease;
    std::vector<JobIndex> order;
    std::vector<Bid> bids;
    for (const JobIndex job : view.active()) {
      if (!all_end && view.is_running(job)) {
        order.push_back(job);
      } else if (all_end || view.idle_parts() > 0) {
        bids.push_back(bid_of(view, job));
      }
    }
    auction(bids);
    for (const Bid& bid : bids) order.push_back(bid.job);
    Plan plan = fill_in_order(view, order);
    plan.wake_s = leases_end_s_;
    return plan;
  }

 private:
  static constexpr double kLease = 1200;
  static constexpr double kOffered = 0.2;

  struct Bid {
    JobIndex job;
    double unfairness;  // with devices from now on
    double gain;        // of the logarithm, per device, over another lease without
  };

  /// Orders bids as they are served.
  static void auction(std::vector<Bid>& bids) {
    std::ranges::sort(bids, std::ranges::greater(), &Bid::unfairness);
    const auto offered =
        static_cast<std::ptrdiff_t>(std::ceil(kOffered * static_cast<double>(bids.size())));
    std::ranges::stable_sort(bids.begin(), bids.begin() + offered, std::ranges::greater(),
                             &Bid::gain);
  }

  /// The integral of how many times the cluster's devices are requested.
  void count_contention(const View& view) {
    contention_s_ += contention_ * (view.now_s() - counted_s_);
    counted_s_ = view.now_s();
    double requested = 0;
    for (const JobIndex job : view.active()) {
      requested += view.job(job).devices();
      if (contention_at_start_.size() <= job) {
        contention_at_start_.resize(job + 1, contention_s_);
        start_s_.resize(job + 1, view.now_s());
      }
    }
    contention_ = std::max(1.0, requested / view.usable_devices());
  }

  [[nodiscard]] Bid bid_of(const View& view, JobIndex job) const {
    const double lived = view.now_s() - start_s_[job];
    const double mean =
        lived > 0 ? (contention_s_ - contention_at_start_[job]) / lived : contention_;
    const double alone = view.job(job).service_s * mean;
    const double shared = view.now_s() - view.job(job).submit_s + view.left_s(job);
    return {.job = job,
            .unfairness = shared / alone,
            .gain = std::log((shared + kLease) / shared) / view.job(job).devices()};
  }

  double contention_ = 1;
  double contention_s_ = 0;
  double counted_s_ = 0;
  double leases_end_s_ = 0;
  std::vector<double> contention_at_start_;  // of each job
  std::vector<double> start_s_;
};

}  // namespace

std::unique_ptr<Policy> make_themis() {
  return std::make_unique<Themis>();
}

}  // namespace taut::schedule
