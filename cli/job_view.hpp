#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/control.pb.h"

namespace taut::cli {

/// True once nothing of the job will change any more.
[[nodiscard]] bool has_ended(pb::JobState state);
/// "BSP", "SSP, slack 3", "ASYNC".
[[nodiscard]] std::string mode_name(const pb::JobStatus& job);

/// What all workers together did, as they last reported it.
struct JobProgress {
  std::int64_t iteration = 0;  // of the slowest worker that is not lost
  std::int64_t apart = 0;      // clocks between the fastest and the slowest of them
  double loss = 0;             // mean over them
  double images_per_second = 0;
  std::uint64_t images = 0;
};
[[nodiscard]] JobProgress progress_of(const pb::JobStatus& job);

/// Reads by staleness (the clock of the read minus the version it got), over all workers.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::uint64_t>> staleness_of(
    const pb::JobStatus& job);

/// A running job as a block of lines: how far, how fast, and each worker's clock on one scale.
[[nodiscard]] std::vector<std::string> progress_block(const pb::JobStatus& job, int width);
/// The same as one line, for logs.
[[nodiscard]] std::string progress_line(const pb::JobStatus& job);
/// "0.9125", or "-" where the net has no Accuracy.
[[nodiscard]] std::string accuracy_text(const pb::Evaluation& evaluation);
[[nodiscard]] std::string evaluation_line(const pb::Evaluation& evaluation);

}  // namespace taut::cli
