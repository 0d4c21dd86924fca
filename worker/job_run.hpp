#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "proto/session/last_clocks.hpp"
#include "proto/session/share_orders.hpp"
#include "worker/cache/value_store.hpp"
#include "worker/client/client.hpp"
#include "worker/client/shard_moves.hpp"
#include "worker/collective/rank_board.hpp"
#include "worker/collective/rank_endpoint.hpp"
#include "worker/compression/choice_board.hpp"
#include "worker/engine/backend.hpp"
#include "worker/pace.hpp"
#include "worker/progress.hpp"
#include "worker/replica.hpp"
#include "worker/state_saver.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {

/// The result of a run.
struct JobOutcome {
  Clock clock;
  std::string parameters_sha256;  // of the final parameters, if this process evaluates
  bool left = false;              // before the last clock, as ordered
};

/// Orders to a running run.
struct RunOrders {
  std::atomic<bool> stop = false;
  std::atomic<bool> leave = false;  // at the end of a clock, when none of its updates can be lost
  /// The run does the last test and digests the parameters. If another worker was assigned to do so
  /// when it began, it does no tests before the last one.
  std::atomic<bool> evaluates = false;
  ShareOrders shares;           // of the batch, if the job balances
  LastClocks last_clocks;       // if the job is saved to end
  ShardMoves moves;             // the new places of shards when their servers are lost
  collective::RankBoard ranks;  // if the job's workers sum among themselves
  ChoiceBoard choice;           // of the schemes of a job whose compression is AUTO
};

/// The trainer's options that follow from a job.
[[nodiscard]] Trainer::Options trainer_options(const pb::Job& job);

/// The environment of a run: a process with sockets, threads and a clock, or the lab.
class RunPlace {
 public:
  RunPlace() = default;
  RunPlace(const RunPlace&) = delete;
  RunPlace& operator=(const RunPlace&) = delete;
  virtual ~RunPlace() = default;

  /// Makes the endpoint for the job's shards.
  [[nodiscard]] virtual std::unique_ptr<Endpoint> make_endpoint() = 0;
  [[nodiscard]] virtual Pace& pace() = 0;
  /// Whether the run's parts have their own threads. Otherwise the run's driver calls
  /// Client::work(), and passes the RunOrders that concern the client to it.
  [[nodiscard]] virtual bool has_threads() const = 0;
  /// A net that all runs of this place use in turn; nullptr: each run has its own.
  [[nodiscard]] virtual std::shared_ptr<Net> shared_net() { return nullptr; }
  /// Whether values are computed. Otherwise the run only takes the time that computing would cost.
  [[nodiscard]] virtual bool learns() const { return true; }
  /// Where shared parameters are stored; nullptr: in the device's memory.
  [[nodiscard]] virtual std::unique_ptr<ValueStore> make_store(Client& /*client*/,
                                                               const ServedOptions& /*options*/) {
    return nullptr;
  }
  /// Memory for updates, shared by the clients of several runs; nullptr: each client has its own.
  [[nodiscard]] virtual std::shared_ptr<BufferPool> update_pool() { return nullptr; }
  /// Opens the endpoint at which other workers reach this one to sum with it.
  /// Errors    as collective::listen_as_rank()
  [[nodiscard]] virtual Result<collective::RankEndpoint> listen_as_rank(
      const collective::RankBoard& board) = 0;
  /// Passes the function that continues the exchange while the run computes, if its parts have no
  /// threads. It must be called as described in collective::ReplicaGroup::Options for as long as
  /// the rank's endpoint is open.
  virtual void work_with(const std::function<void()>& /*work*/) {}
  /// The run's client, from now until nullptr is passed.
  virtual void use(Client* client) = 0;
};

/// Trains one job as a member: makes the net, connects to the shards, runs the loop, and ends with
/// the test phase if this worker evaluates.
/// assets    of the job, opened for its slots and the number of devices
/// devices   one or more; several split the worker's batch, and the first one has the tables
/// Errors    whatever prevented the job from finishing, in one line
/// Thread    a dedicated thread; orders may come from any
[[nodiscard]] Result<JobOutcome> run_member(const pb::WorkerJob& job, const JobAssets& assets,
                                            std::span<Backend* const> devices, RunPlace& place,
                                            const pb::ClusterConfig& config, RunOrders& orders,
                                            ProgressBoard& board, StateSaver& saver);

/// As run_member(), in a worker's process: opens the job's data first.
[[nodiscard]] Result<JobOutcome> run_job(const pb::WorkerJob& job,
                                         std::span<Backend* const> devices, ZmqContext& context,
                                         const pb::ClusterConfig& config, RunOrders& orders,
                                         ProgressBoard& board, StateSaver& saver);

/// The addresses of a job's shards in its newest message.
[[nodiscard]] std::vector<ShardAddress> shard_addresses(const pb::WorkerJob& job);

}  // namespace taut::worker
