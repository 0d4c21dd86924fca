#pragma once

#include <chrono>
#include <string>

#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut::test {

/// Servers named s0, s1, ... with two shards each, and workers named w0, w1, ...: all have joined.
inline void fill(FakeCluster& cluster, int servers, int workers) {
  for (int i = 0; i < servers; ++i) cluster.add_server("s" + std::to_string(i), 2);
  for (int i = 0; i < workers; ++i) cluster.add_worker("w" + std::to_string(i));
  cluster.run_for(std::chrono::seconds(1));
}

}  // namespace taut::test
