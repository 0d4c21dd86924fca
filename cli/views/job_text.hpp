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

/// "images/s": what the job's rate counts.
[[nodiscard]] std::string rate_unit(const pb::JobStatus& job);

/// What all workers together did: clocks as one shard sees them at one moment, or else as the
/// workers last reported them.
struct JobProgress {
  std::int64_t iteration = 0;  // of the slowest worker that is not lost
  std::int64_t apart = 0;      // clocks between the fastest and the slowest of them
  std::optional<double> loss;  // mean over those that have finished an iteration
};
[[nodiscard]] JobProgress progress_of(const pb::JobStatus& job);

/// Reads of all workers by staleness: the clock of the read minus the version it got.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::uint64_t>> staleness_of(
    const pb::JobStatus& job);

/// What was chosen for a compression that is AUTO, and why; empty: the job names what it has.
[[nodiscard]] std::string choice_text(const pb::JobStatus& job);

/// Bytes of its workers' updates, and the share that compression has saved; empty: none is.
[[nodiscard]] std::string compression_text(const pb::JobStatus& job);

/// A running job as a block of lines: progress, rates, and each worker's clock on one scale, as
/// wide as the rest of its line leaves it.
/// colours    lost, stalled and slow workers have a colour
/// recent     what its workers waited over the last seconds; nullptr: the share since the start
[[nodiscard]] std::vector<std::string> progress_block(const pb::JobStatus& job, int width,
                                                      const JobWords& words = {},
                                                      bool colours = false,
                                                      const WaitShares* recent = nullptr);
/// A job's progress as one line, for logs.
[[nodiscard]] std::string progress_line(const pb::JobStatus& job);
/// "iteration 100 of 500"; "iteration 100" of a job that ends when its members say so.
[[nodiscard]] std::string iterations_text(const pb::JobStatus& job);
/// "0.9125", or "-" where the net has no Accuracy.
[[nodiscard]] std::string accuracy_text(const pb::Evaluation& evaluation);
/// "test at iteration 100: accuracy 0.9125, loss 0.2514", with the perplexity where it has one.
[[nodiscard]] std::string evaluation_line(const pb::Evaluation& evaluation,
                                          const JobWords& words = {});

}  // namespace taut::cli
