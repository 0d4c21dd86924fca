#pragma once

#include <cstddef>
#include <vector>

#include "common/time.hpp"

namespace taut {

/// A connection to one of this process's sockets, as far as its eviction depends on it.
struct OpenConnection {
  int descriptor = -1;
  bool has_spoken = false;  // a message of it was received
  TimePoint last_heard;     // that message, or the accepting
  std::size_t key = 0;      // which key it has, once it has spoken: a digest
};

/// Which connections are closed so that `limit` stay: those that have sent nothing, the oldest
/// first; then, of the key that has most of them, the one that has been silent for longest. So a
/// key takes no place of another that has fewer.
/// Returns   descriptors
[[nodiscard]] std::vector<int> connections_to_close(std::vector<OpenConnection> open,
                                                    std::size_t limit);

}  // namespace taut
