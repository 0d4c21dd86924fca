#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/twin/runtime/operation.hpp"

namespace taut::twin {

struct Node {
  Task task;
  std::vector<std::size_t> after;
};

/// What is being recorded, from one stream's begin to its end.
struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;  // that take part
  std::vector<Node> nodes;
  bool is_invalid = false;
};

/// All captures that have begun and not ended. REQUIRES: the lock is held
std::vector<std::shared_ptr<Capture>>& captures();

}  // namespace taut::twin

struct CUgraph_st {
  std::vector<taut::twin::Node> nodes;
};
struct CUgraphExec_st {
  std::vector<taut::twin::Node> nodes;
  taut::twin::Work last;  // of its last launch
};
