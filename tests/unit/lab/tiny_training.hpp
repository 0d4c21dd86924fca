#pragma once

#include <string>

#include "lab/training/training_run.hpp"

namespace taut::lab {

/// A training of a net of one layer with three workers under SSP with slack 2, on a server and
/// hosts behind cards of 10 Mbit/s; no metrics are written. Fails the case where a text is wrong.
/// job      more of the job, its solver at least
/// cluster  more of the cluster, its compute at least
[[nodiscard]] TrainingOptions tiny_training(const std::string& job, const std::string& cluster);

/// Fails the case where it cannot be run.
[[nodiscard]] TrainingOutcome run_to_end(const TrainingOptions& options);

}  // namespace taut::lab
