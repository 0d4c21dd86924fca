#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace taut::cli {

/// What `tautline train` is asked for; what is left open is the job file's to say.
struct TrainOptions {
  std::string job_file;  // empty: the default job
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;
  std::optional<std::uint32_t> workers;
  std::optional<pb::Consistency::Mode> mode;
  std::optional<std::uint32_t> slack;
  std::optional<std::int32_t> max_iter;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stragglers;  // text protobuf, beside the job's
  std::optional<double> clock_time_ms;
  std::vector<std::string> weights;  // files to begin with, in the place of the job's
  std::string data;                  // folder
  std::string output;                // folder
  std::string resume;                // folder of a checkpoint
  pb::WorkerConfig::Device device = pb::WorkerConfig::AUTO;
  std::uint32_t threads = 1;
  std::uint64_t device_memory_budget = 0;  // bytes for each worker; 0: what the device has
  std::string dashboard;                   // "host:port" of the page; empty: none
  std::vector<std::string> pins;           // one for each worker, or none
  std::vector<std::vector<std::uint32_t>> device_indices;  // of each worker, in turn; or none
  bool overlap = true;        // false: an iteration's updates leave together
  pb::RecordsConfig records;  // what workers write down, in the run's folder
};

/// The whole job: the file's, with what the options say put over it, and data that is there.
/// Errors    as load_job and check_job; missing data, with the way to get it
[[nodiscard]] Result<pb::Job> training_job(const TrainOptions& options);

/// Trains on this machine and prints the summary. Returns the exit status.
int run_train(const TrainOptions& options);

}  // namespace taut::cli
