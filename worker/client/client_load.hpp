#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "common/types.hpp"

namespace taut {

/// What a client has sent and received, and what is still waiting. An update counts once for each
/// slice of its table.
struct ClientFigures {
  /// Sent to one shard and not acknowledged: in transit, or in the shard's queue.
  struct UnderWay {
    std::size_t updates = 0;
    std::uint64_t bytes = 0;  // payload
  };
  std::uint64_t messages_out = 0;
  std::uint64_t messages_in = 0;
  std::map<ShardId, UnderWay> under_way;
  std::size_t updates_waiting = 0;  // to be sent: the window is full, or a shard requested a pause
};

/// A shard that has owed an answer for more than half of its caller's maximum wait.
struct SilentShard {
  ShardId shard;
  std::uint64_t term = 0;  // under which it was asked
};

/// The newest figures, shared by the client that writes and the threads that show them.
/// Thread    any
class ClientLoad {
 public:
  void note(const ClientFigures& figures) {
    std::scoped_lock lock(mutex_);
    figures_ = figures;
  }
  [[nodiscard]] ClientFigures read() const {
    std::scoped_lock lock(mutex_);
    return figures_;
  }
  /// Records the shard that has been silent for longest; nullopt if none is.
  void note_silent(std::optional<SilentShard> shard) {
    std::scoped_lock lock(mutex_);
    silent_ = shard;
  }
  [[nodiscard]] std::optional<SilentShard> silent() const {
    std::scoped_lock lock(mutex_);
    return silent_;
  }

 private:
  mutable std::mutex mutex_;
  ClientFigures figures_;
  std::optional<SilentShard> silent_;
};

}  // namespace taut
