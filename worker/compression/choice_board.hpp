#pragma once

#include <mutex>
#include <optional>

#include "proto/control.pb.h"

namespace taut::worker {

/// For a job whose compression is AUTO: passes a worker's measurements from its run to the
/// coordinator, and the coordinator's choice back to the run.
/// Thread    any
class ChoiceBoard {
 public:
  /// Keeps the compression of the first WorkerJob in which it is no longer AUTO.
  void post(const pb::WorkerJob& job);
  [[nodiscard]] std::optional<pb::Compression> chosen() const;

  void set_measured(const pb::CompressionCosts& measured);
  /// Adds the measurements to a report until there is a choice.
  void report(pb::Progress& progress) const;

 private:
  mutable std::mutex mutex_;
  std::optional<pb::Compression> chosen_;
  std::optional<pb::CompressionCosts> measured_;
};

}  // namespace taut::worker
