#pragma once

#include <memory>
#include <vector>

#include "tests/twin/runtime/graph.hpp"
#include "tests/twin/runtime/operation.hpp"

struct CUevent_st {
  int device = 0;
  taut::twin::Work work;  // what it waits for; nullptr: never recorded, or nothing was queued
  /// Recorded in a stream that was captured: the nodes that it stands for.
  std::shared_ptr<taut::twin::Capture> capture;
  std::vector<std::size_t> nodes;
};
