#pragma once

#include <mutex>
#include <optional>

#include "proto/control.pb.h"

namespace taut::worker {

/// What a worker has measured for a job whose compression is AUTO, from the run to the coordinator,
/// and what was chosen, from there to the run.
/// Thread    any
class ChoiceBoard {
 public:
  /// Takes over what a WorkerJob says, once that is a choice.
  void post(const pb::WorkerJob& job);
  [[nodiscard]] std::optional<pb::Compression> chosen() const;

  void set_measured(const pb::CompressionCosts& measured);
  /// Adds what was measured to a report, until it has led to a choice.
  void report(pb::Progress& progress) const;

 private:
  mutable std::mutex mutex_;
  std::optional<pb::Compression> chosen_;
  std::optional<pb::CompressionCosts> measured_;
};

}  // namespace taut::worker
