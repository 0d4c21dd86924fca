#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/job_options.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace taut::cli {

/// The options of `tautline train`.
struct TrainOptions {
  std::string job_file;  // empty: the default job
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;
  JobOptions job;
  std::string output;    // folder
  bool force = false;    // a run that exists in the folder is replaced
  bool discard = false;  // Ctrl-C ends it without saving
  pb::WorkerConfig::Device device = pb::WorkerConfig::AUTO;
  std::uint32_t threads = 1;
  std::uint64_t device_memory_budget = 0;  // bytes for each worker; 0: all of the device
  std::string dashboard;                   // "host:port" of the page; empty: none
  std::vector<std::string> pins;           // one for each worker, or none
  std::vector<std::vector<std::uint32_t>> device_indices;  // of each worker, in turn; or none
  bool overlap = true;        // false: an iteration's updates are sent together
  bool json = false;          // print the summary as one JSON object, and nothing else
  pb::RecordsConfig records;  // what workers record, in the run's folder
};

/// The whole job: the file's, overridden by the options, with data that exists.
/// Errors    as load_job() and check_job(); missing data, with how to get it
[[nodiscard]] Result<pb::Job> training_job(const TrainOptions& options);

/// What workers record, from comma-separated words: metrics, tensorboard, timeline, all, none.
/// Throws UsageError for any other word.
[[nodiscard]] pb::RecordsConfig parse_records(const std::string& words);

/// Trains on this machine and prints the summary. Returns the exit status.
int run_train(const TrainOptions& options);

}  // namespace taut::cli
