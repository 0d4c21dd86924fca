#pragma once

#include <memory>
#include <vector>

#include "tests/twin/runtime/graph.hpp"
#include "tests/twin/runtime/operation.hpp"

struct CUevent_st {
  int device = 0;
  taut::twin::Work work;  // what it waits for; nullptr: never recorded, or nothing was queued
  /// If recorded in a captured stream: the nodes that it represents.
  std::shared_ptr<taut::twin::Capture> capture;
  std::vector<std::size_t> nodes;
};
