#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/views/worker_marks.hpp"
#include "proto/config/job_words.hpp"
#include "proto/control.pb.h"

namespace taut::cli {

/// True for a job that is done, failed or stopped.
[[nodiscard]] bool has_ended(pb::JobState state);
/// "BSP", "SSP, slack 3", "ASYNC".
[[nodiscard]] std::string mode_name(const pb::JobStatus& job);

/// The unit of the job's rate, e.g. "images/s".
[[nodiscard]] std::string rate_unit(const pb::JobStatus& job);

/// The progress of all workers: clocks as one shard sees them at one moment, or else as the workers
/// last reported them.
struct JobProgress {
  std::int64_t iteration = 0;  // of the slowest worker that is not lost
  std::int64_t apart = 0;      // clocks between the fastest and the slowest of them
  std::optional<double> loss;  // mean over those that have finished an iteration
};
[[nodiscard]] JobProgress progress_of(const pb::JobStatus& job);

/// Reads of all workers by staleness: the clock of the read minus the version that it got.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::uint64_t>> staleness_of(
    const pb::JobStatus& job);

/// The choice for a compression that is AUTO, and why; empty if the job names its compression.
[[nodiscard]] std::string choice_text(const pb::JobStatus& job);

/// Bytes of its workers' updates, and the share that compression has saved; empty without one.
[[nodiscard]] std::string compression_text(const pb::JobStatus& job);

/// A running job as a block of lines: progress, rates, and each worker's clock on one scale, as
/// wide as the rest of its line allows.
/// colours    lost, stalled and slow workers have a color
/// recent     its workers' waits over the last seconds; nullptr: the share since the start
[[nodiscard]] std::vector<std::string> progress_block(const pb::JobStatus& job, int width,
                                                      const JobWords& words = {},
                                                      bool colours = false,
                                                      const WaitShares* recent = nullptr);
/// A job's progress as one line, for logs.
[[nodiscard]] std::string progress_line(const pb::JobStatus& job);
/// "iteration 100 of 500"; "iteration 100" for a job that ends when its members decide.
[[nodiscard]] std::string iterations_text(const pb::JobStatus& job);
/// "0.9125", or "-" if the net has no Accuracy.
[[nodiscard]] std::string accuracy_text(const pb::Evaluation& evaluation);
/// "test at iteration 100: accuracy 0.9125, loss 0.2514", with the perplexity if it has one.
[[nodiscard]] std::string evaluation_line(const pb::Evaluation& evaluation,
                                          const JobWords& words = {});

}  // namespace taut::cli
