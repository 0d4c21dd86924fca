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
/// moves     where shards are served when their servers are lost
/// Errors    whatever kept the job from finishing, in one line
/// leave     ends it at the end of a clock, when no update of it can be lost any more
/// Thread    a dedicated thread; `stop` and `leave` may be set from any
[[nodiscard]] Result<JobOutcome> run_job(const pb::WorkerJob& job,
                                         std::span<Backend* const> devices, ZmqContext& context,
                                         const pb::ClusterConfig& config,
                                         const std::atomic<bool>& stop,
                                         const std::atomic<bool>& leave, ShardMoves& moves,
                                         ProgressBoard& board, StateSaver& saver);

/// Where a job's shards are served, as its newest message says.
[[nodiscard]] std::vector<ShardAddress> shard_addresses(const pb::WorkerJob& job);

}  // namespace taut::worker
