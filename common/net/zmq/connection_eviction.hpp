#pragma once

#include <cstddef>
#include <vector>

#include "common/time.hpp"

namespace taut {

/// What eviction must know about a connection to one of this process's sockets.
struct OpenConnection {
  int descriptor = -1;
  bool has_spoken = false;  // a message was received from it
  TimePoint last_heard;     // when the last message was received, or it was accepted
  std::size_t key = 0;      // a digest of its key, once it has spoken
};

/// Chooses the connections to close so that `limit` remain: those that have sent nothing, oldest
/// first; then, repeatedly, the longest-silent one of the key that has the most. So a key displaces
/// no connection of a key that has fewer.
/// Returns   descriptors
[[nodiscard]] std::vector<int> connections_to_close(std::vector<OpenConnection> open,
                                                    std::size_t limit);

}  // namespace taut
