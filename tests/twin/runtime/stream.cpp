#include "tests/twin/runtime/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/scheduler.hpp"

namespace taut::twin {
namespace {

struct Streams {
  std::array<CUstream_st, kMaxDevices> defaults;
  std::set<CUstream_st*> live;
};
Streams& streams() {
  static auto* const one = [] {
    auto* const fresh = new Streams;
    for (int i = 0; i < kMaxDevices; ++i) {
      fresh->defaults[static_cast<std::size_t>(i)].device = i;
    }
    return fresh;
  }();
  return *one;
}

bool is_default(const CUstream_st& stream) {
  return &stream == &streams().defaults[static_cast<std::size_t>(stream.device)];
}

/// The legacy default stream and blocking streams wait for each other.
void follow_default(CUstream_st& stream, std::vector<Work>& after) {
  if (!stream.is_blocking) return;
  if (!is_default(stream)) {
    after.push_back(streams().defaults[static_cast<std::size_t>(stream.device)].tail);
    return;
  }
  for (CUstream_st* const other : streams().live) {
    if (other->is_blocking && other->device == stream.device) after.push_back(other->tail);
  }
}

}  // namespace

CUstream_st& stream_of(const char* call, cudaStream_t handle) {
  if (handle == nullptr) {
    return streams().defaults[static_cast<std::size_t>(current_device())];
  }
  if (!streams().live.contains(handle)) {
    report_violation("stream.live",
                     fmt::format("{}: a stream that does not exist, or no longer", call));
  }
  return *handle;
}

cudaError_t append(CUstream_st& stream, Task task) {
  if (stream.capture != nullptr) {
    Capture& capture = *stream.capture;
    if (capture.is_invalid) return cudaErrorStreamCaptureInvalidated;
    capture.nodes.push_back({std::move(task), stream.front});
    stream.front = {capture.nodes.size() - 1};
    return cudaSuccess;
  }
  std::vector<Work> after = std::exchange(stream.must_follow, {});
  after.push_back(stream.tail);
  follow_default(stream, after);
  stream.tail = queue(std::move(task), std::move(after));
  return cudaSuccess;
}

Work end_of(CUstream_st& stream) {
  std::vector<Work> after = stream.must_follow;
  follow_default(stream, after);
  const bool follows =
      std::ranges::any_of(after, [](const Work& one) { return one != nullptr && !one->is_done; });
  if (follows) (void)append(stream, {.what = "a join of streams", .device = stream.device});
  return stream.tail;
}

bool is_capturing(cudaStream_t handle) {
  const Lock lock;
  return stream_of("a library's call", handle).capture != nullptr;
}

int device_of(cudaStream_t handle) {
  const Lock lock;
  return stream_of("a library's call", handle).device;
}

void require_stream(std::string_view call, cudaStream_t handle) {
  const Lock lock;
  (void)stream_of(std::string(call).c_str(), handle);
}

void enqueue(cudaStream_t handle, std::string what, std::vector<Access> accesses,
             std::function<void()> run, std::function<bool()> may_run, CallPart part) {
  const Lock lock;
  CUstream_st& stream = stream_of(what.c_str(), handle);
  // What the capture refuses is said by its end.
  (void)append(stream, {.what = std::move(what),
                        .device = stream.device,
                        .accesses = std::move(accesses),
                        .run = std::move(run),
                        .may_run = std::move(may_run),
                        .kind = part == CallPart::kMain ? TaskKind::kLibrary : TaskKind::kOther});
}

void wake() {
  const Lock lock;
  runtime_changed().notify_all();
}

cudaError_t finish(cudaStream_t handle) {
  return cudaStreamSynchronize(handle);
}

}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  const Lock lock;
  if (const auto refused =
          enter("cudaStreamCreateWithFlags", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  if (flags > cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
  auto* const stream = new CUstream_st;
  stream->device = current_device();
  stream->is_blocking = flags != cudaStreamNonBlocking;
  streams().live.insert(stream);
  *handle = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Lock lock;
  if (handle == nullptr) return answer(cudaErrorInvalidResourceHandle);
  CUstream_st& stream = stream_of("cudaStreamDestroy", handle);
  if (stream.capture != nullptr) {
    report_violation("capture.destroyed", "cudaStreamDestroy of a stream that is captured");
  }
  // Its work continues without it.
  streams().live.erase(handle);
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Lock lock;
  CUstream_st& stream = stream_of("cudaStreamSynchronize", handle);
  if (const auto refused = enter("cudaStreamSynchronize", stream.device)) return *refused;
  if (stream.capture != nullptr) {
    stream.capture->is_invalid = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  wait_for(lock, end_of(stream));
  return answer(device_status(stream.device));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Lock lock;
  CUstream_st& stream = stream_of("cudaStreamQuery", handle);
  if (const auto refused = enter("cudaStreamQuery", stream.device)) return *refused;
  if (stream.capture != nullptr) {
    stream.capture->is_invalid = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  if (!poll(end_of(stream))) return answer(cudaErrorNotReady);
  return answer(device_status(stream.device));
}
}
