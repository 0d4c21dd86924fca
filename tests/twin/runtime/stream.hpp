#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/twin/runtime/graph.hpp"
#include "tests/twin/runtime/operation.hpp"

/// A stream: the last of its work, and what its next work must follow as well.
struct CUstream_st {
  int device = 0;
  bool is_blocking = true;  // waits for the legacy default stream
  taut::twin::Work tail;
  std::vector<taut::twin::Work> must_follow;
  /// Where it is captured; and which of its nodes the next one follows.
  std::shared_ptr<taut::twin::Capture> capture;
  std::vector<std::size_t> front;
};

namespace taut::twin {

/// The stream of a handle; nullptr is the calling thread's device's legacy default one. Reports a
/// handle of no stream.
[[nodiscard]] CUstream_st& stream_of(const char* call, cudaStream_t handle);
/// Puts a task behind what is queued on the stream, or into its graph.
/// Errors    cudaErrorStreamCapture...: nothing is queued
cudaError_t append(CUstream_st& stream, Task task);
/// Where the stream's work ends now: nullptr where none is queued.
[[nodiscard]] Work end_of(CUstream_st& stream);

/// Makes invalid what is captured of a device, as a call that waits for all of it does; false:
/// nothing is.
bool invalidate_captures_of(int device);

}  // namespace taut::twin
