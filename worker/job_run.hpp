#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "common/net/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "worker/engine/backend.hpp"
#include "worker/progress.hpp"
#include "worker/shard_moves.hpp"
#include "worker/state_saver.hpp"
#include "worker/trainer.hpp"

namespace taut::worker {

/// The result of a run.
struct JobOutcome {
  Clock clock;
  std::string parameters_sha256;  // of the final parameters, if this process evaluates
  bool left = false;              // before the last clock, as it was to
};

/// What a run is told while it runs.
struct RunOrders {
  std::atomic<bool> stop = false;
  std::atomic<bool> leave = false;  // at the end of a clock, when no update of it can be lost
  /// It runs the last test and digests the parameters. Where another worker was to do so when it
  /// began, it runs no tests before the last one.
  std::atomic<bool> evaluates = false;
  ShardMoves moves;  // where shards are served when their servers are lost
};

/// The trainer's options that follow from a job.
[[nodiscard]] Trainer::Options trainer_options(const pb::Job& job);

/// The parameters' digest: SHA-256 over every table's values in table order, little-endian float32.
/// until       waits until every table holds all updates before this clock
/// divergence  checks the values
[[nodiscard]] Result<std::string> digest_parameters(ParameterCache& cache,
                                                    const model::Graph& graph, Clock until,
                                                    Duration wait, const std::atomic<bool>& stop,
                                                    const DivergenceRule& divergence,
                                                    ProgressBoard& board);

/// Trains one job as a member: opens data and net, connects to the shards, runs the loop, and
/// ends with the test phase if this worker evaluates.
/// devices   one or more; several split the worker's batch, and the first one has the tables
/// Errors    whatever kept the job from finishing, in one line
/// Thread    a dedicated thread; orders may come from any
[[nodiscard]] Result<JobOutcome> run_job(const pb::WorkerJob& job,
                                         std::span<Backend* const> devices, ZmqContext& context,
                                         const pb::ClusterConfig& config, RunOrders& orders,
                                         ProgressBoard& board, StateSaver& saver);

/// Where a job's shards are served, as its newest message says.
[[nodiscard]] std::vector<ShardAddress> shard_addresses(const pb::WorkerJob& job);

}  // namespace taut::worker
