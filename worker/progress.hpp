#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/client/client.hpp"
#include "worker/layers/output_means.hpp"

namespace taut::worker {

/// The result of a test phase.
struct TestResult {
  Clock clock;
  std::optional<double> accuracy;          // nullopt if the net has no Accuracy
  double loss = 0;                         // the sum of the weighted losses
  std::vector<OutputMeans::Mean> outputs;  // every output that is a number
};

/// The progress of a run, for display.
struct ProgressReport {
  Clock clock;      // clocks finished
  double loss = 0;  // averaged over the last average_loss clocks
  std::uint64_t images = 0;
  Duration compute{0};
  Duration wait{0};                          // of these clocks, for parameters and data
  std::optional<TimePoint> first_iteration;  // when the first clock's compute started
  TimePoint last_iteration;                  // when the last clock's compute ended
  StalenessHistogram staleness;
  Client::Traffic traffic;
  Disagreement disagreement;
  std::vector<TestResult> tests;
  bool diverged = false;  // a loss or a parameter was not finite
};

/// The newest report, shared by the compute thread that writes it and the thread that sends it.
/// Thread: any.
class ProgressBoard {
 public:
  void post(const ProgressReport& report) {
    std::scoped_lock lock(mutex_);
    const bool diverged = report_.diverged;
    report_ = report;
    report_.diverged |= diverged;
  }
  /// Marks the training as diverged, in all reports from now on. Returns whether this is the first
  /// time.
  bool note_divergence() {
    std::scoped_lock lock(mutex_);
    return !std::exchange(report_.diverged, true);
  }
  [[nodiscard]] ProgressReport read() const {
    std::scoped_lock lock(mutex_);
    return report_;
  }
  /// Notes that the compute waits from now on, for other workers' updates or for data.
  void begin_wait(TimePoint now) {
    std::scoped_lock lock(mutex_);
    waits_since_ = now;
  }
  /// Ends the wait, and returns its length.
  Duration end_wait(TimePoint now) {
    std::scoped_lock lock(mutex_);
    const Duration wait = waits_since_ ? now - *waits_since_ : Duration(0);
    waits_since_.reset();
    waited_ += wait;
    return wait;
  }
  /// The total of all waits so far, including a current one.
  [[nodiscard]] Duration waited(TimePoint now) const {
    std::scoped_lock lock(mutex_);
    return waited_ + (waits_since_ ? now - *waits_since_ : Duration(0));
  }
  /// The run's metrics.csv; empty if it writes none.
  void set_metrics_file(const std::filesystem::path& file) {
    std::scoped_lock lock(mutex_);
    metrics_file_ = file;
  }
  [[nodiscard]] std::filesystem::path metrics_file() const {
    std::scoped_lock lock(mutex_);
    return metrics_file_;
  }
  /// Figures that the job's client updates.
  [[nodiscard]] const std::shared_ptr<ClientLoad>& load() const { return load_; }

 private:
  const std::shared_ptr<ClientLoad> load_ = std::make_shared<ClientLoad>();
  mutable std::mutex mutex_;
  ProgressReport report_;
  Duration waited_{0};  // in waits that have ended
  std::optional<TimePoint> waits_since_;
  std::filesystem::path metrics_file_;
};

}  // namespace taut::worker
