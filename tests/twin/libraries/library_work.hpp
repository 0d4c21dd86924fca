#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/twin/stream_queue.hpp"

// What the twin's libraries share: operands that are checked, and work with a workspace.
namespace taut::twin {

/// A number below `bound` that the seed gives to `question`: the same at each time that it is asked
/// in a process, as a library chooses the same for the same.
[[nodiscard]] std::uint64_t chosen_number(const std::string& question, std::uint64_t bound);

/// An operand of a library's call.
struct Operand {
  const char* name = "";
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool is_write = false;
  bool is_read = true;  // of one that is written: whether it is read, too
};

/// A call of a library that queues work.
struct Work {
  const char* call = "";  // "cublasLtMatmul"
  std::string about;      // "64x10x500"
  cudaStream_t stream = nullptr;
  int device = 0;  // of the library's handle
  std::vector<Operand> operands;
  std::size_t alignment = 1;  // that all operands have
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  // that the algorithm needs: what is beyond is not touched
};

/// Checks the stream and the operands, and queues `run`. The workspace is written before `run`,
/// held to be unchanged when `run` starts, and destroyed behind it: two calls that share one while
/// both are under way are found.
/// Reports   library.device, library.operands, library.overlap, library.workspace
void queue_work(const Work& work, std::function<void()> run);

}  // namespace taut::twin
