#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/client/client.hpp"
#include "worker/layers/output_means.hpp"

namespace taut::worker {

/// What a test phase found.
struct TestResult {
  Clock clock;
  std::optional<double> accuracy;          // none where the net has no Accuracy
  double loss = 0;                         // the sum of the weighted losses
  std::vector<OutputMeans::Mean> outputs;  // every number that the net puts out
};

/// Where a run stands, for whoever shows it.
struct ProgressReport {
  Clock clock;                   // clocks finished
  double loss = 0;               // the newest, averaged over the solver's average_loss
  double images_per_second = 0;  // of the last second or so
  std::uint64_t images = 0;
  Duration compute{0};
  Duration wait{0};                          // for parameters and data
  std::optional<TimePoint> first_iteration;  // when the first clock's compute began
  StalenessHistogram staleness;
  Client::Traffic traffic;
  std::vector<TestResult> tests;
};

/// The newest report, between the compute thread that writes it and the one that sends it.
/// Thread: any.
class ProgressBoard {
 public:
  void post(const ProgressReport& report) {
    std::scoped_lock lock(mutex_);
    report_ = report;
  }
  [[nodiscard]] ProgressReport read() const {
    std::scoped_lock lock(mutex_);
    return report_;
  }
  /// What the job's client keeps up to date.
  [[nodiscard]] const std::shared_ptr<ClientLoad>& load() const { return load_; }

 private:
  const std::shared_ptr<ClientLoad> load_ = std::make_shared<ClientLoad>();
  mutable std::mutex mutex_;
  ProgressReport report_;
};

}  // namespace taut::worker
