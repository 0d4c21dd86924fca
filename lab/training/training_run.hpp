#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "lab/training/meter.hpp"
#include "lab/training/outages.hpp"
#include "lab/training/records/playback.hpp"
#include "lab/training/records/virtual_timeline.hpp"
#include "lab/training/topology.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"

namespace taut::lab {

struct TrainingOptions {
  pb::Job job;  // checked, with its number of workers
  pb::LabCluster cluster;
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;   // of each server
  std::uint64_t seed = 1;     // of the times; the job has its own
  std::uint32_t threads = 1;  // that compute; the result is that of a worker with this many
  bool learns = true;         // otherwise nothing is computed, and only costs are known
  bool overlap = true;        // as WorkerConfig's
  pb::RecordsConfig records;  // what the workers record
  /// Receives the job's checkpoints, in a folder `checkpoints`, wherever the job would have them;
  /// they are complete files. If it is empty, or the job does not learn, none is written.
  std::filesystem::path folder;
  double limit_s = 1e9;                 // of virtual time
  Meter* meter = nullptr;               // receives what messages take; nullptr: nothing is measured
  VirtualTimeline* timeline = nullptr;  // receives what is done when; nullptr: none is kept
  Playback* playback = nullptr;         // receives it in bins; must be new; nullptr: none is kept
  Bytes memory{0};                      // that this process may take; 0: no limit
  /// Called now and then with the job's newest status; may be empty. Returns whether to continue.
  std::function<bool(const pb::JobStatus&)> show;
};

struct LinkUse {
  std::size_t pipe = 0;  // of Topology::pipes()
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
  double busy_share = 0;  // of the virtual time
};

struct TrainingOutcome {
  pb::JobStatus job;             // checkpoints' folders are relative to the options' folder
  double virtual_s = 0;          // from the cluster's start to the job's end
  double submitted_s = 0;        // from the start to the job's submission
  double first_iteration_s = 0;  // from the start to the first worker's first clock
  /// Clocks a second of a worker in the second half of the training, without how it starts and ends
  /// (SteadyPace); 0: it has too few clocks, or failed before.
  double steady_clocks_per_s = 0;
  double shards_us = 0;   // of processors, that messages took at shards
  double clients_us = 0;  // and at workers
  std::uint64_t events = 0;
  std::uint64_t shard_bytes = 0;  // memory on this machine of the largest shard's values
  std::vector<LinkUse> links;     // those that carried something
  Topology::Traffic coordinator;
  Topology::Traffic servers;     // with workers, all servers together
  std::vector<HostLoss> losses;  // hosts that went away, in this order
};

/// Trains a job on a cluster that need not exist: one thread, virtual time, the daemons' own code.
/// The same options give the same bits.
/// Errors    invalid: a job that the lab does not run, more processes than places, times that are
///           missing; any error of a worker's process; timeout: the limit; closed: by show();
///           unavailable: more memory than the options allow
[[nodiscard]] Result<TrainingOutcome> run_training(const TrainingOptions& options);

/// Errors    those with which run_training() refuses the options before it trains or writes
///           anything: a job that the lab does not run, too few places, missing times, too little
///           memory
[[nodiscard]] Result<void> check_training(const TrainingOptions& options);

}  // namespace taut::lab
