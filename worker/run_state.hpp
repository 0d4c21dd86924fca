#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/control.pb.h"
#include "worker/cache/parameter_cache.hpp"
#include "worker/client/client.hpp"
#include "worker/replica.hpp"
#include "worker/state_saver.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {

/// The state of a run that only its process has: the state that its nets carry between batches,
/// what compression has left out of its updates, and its cache's state of this worker's own
/// training. Restored from the checkpoint from which the job continues, and passed to the saver for
/// later ones.
/// Thread    the compute thread
class RunState {
 public:
  /// wait  how long the shards may be silent while pending updates are completed
  /// job, replicas, client, cache and saver must outlive the state.
  RunState(const pb::WorkerJob& job, std::span<const Replica> replicas, Client& client,
           ParameterCache& cache, StateSaver& saver, Duration wait);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  /// tables    of the net
  /// Errors    as restore_state and saved_residuals
  [[nodiscard]] Result<void> restore(std::size_t tables);
  /// Sets the callbacks in which the trainer lets this state be copied between two clocks. The
  /// state must outlive the trainer.
  void attach_to(Trainer::Options& options);
  /// Switches to the replicas' new nets, which carry no state yet.
  void use(std::span<const Replica> replicas);
  /// Notes that training has reached its end: later checkpoints are written from the current state.
  /// Errors    as Client::residuals
  [[nodiscard]] Result<void> finish(Clock reached);

 private:
  void copy_at(Clock first, Clock clock);

  const pb::WorkerJob& job_;
  Client& client_;
  ParameterCache& cache_;
  StateSaver& saver_;
  const Duration wait_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Carrier> carriers_;
  bool carries_ = false;  // whether the nets carry anything
  bool is_due_ = false;   // a copy is due at the next clock
};

}  // namespace taut::worker
