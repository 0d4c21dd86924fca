#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "worker/client/client.hpp"

namespace taut::worker {

/// Passes the newest addresses of a running job's shards from the coordinator to the job's client.
/// Thread    any
class ShardMoves {
 public:
  void post(std::vector<ShardAddress> shards) {
    const std::scoped_lock lock(mutex_);
    newest_ = std::move(shards);
  }
  /// The newest that was posted since the last call; empty if nothing was.
  [[nodiscard]] std::vector<ShardAddress> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(newest_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<ShardAddress> newest_;
};

}  // namespace taut::worker
