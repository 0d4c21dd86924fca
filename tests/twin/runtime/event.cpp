#include "tests/twin/runtime/event.hpp"

#include <algorithm>
#include <set>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/scheduler.hpp"
#include "tests/twin/runtime/stream.hpp"

namespace taut::twin {
namespace {

std::set<CUevent_st*>& live() {
  static auto* const one = new std::set<CUevent_st*>;
  return *one;
}

CUevent_st& event_of(const char* call, cudaEvent_t handle) {
  if (!live().contains(handle)) {
    report_violation("event.live",
                     std::string(call) + ": an event that does not exist, or no longer");
  }
  return *handle;
}

/// An event recorded in a stream that is captured can't be asked by the host.
bool invalidate(const CUevent_st& event) {
  const bool is_captured =
      event.capture != nullptr && std::ranges::find(captures(), event.capture) != captures().end();
  if (is_captured) event.capture->is_invalid = true;
  return is_captured;
}

/// What the stream waits for from now on: work that runs, or nodes of its own graph.
cudaError_t join(CUstream_st& stream, CUevent_st& event) {
  const bool is_captured =
      event.capture != nullptr && std::ranges::find(captures(), event.capture) != captures().end();
  if (!is_captured) {
    if (stream.capture != nullptr) {
      if (event.work == nullptr && event.capture == nullptr) return cudaSuccess;
      stream.capture->is_invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event.work != nullptr) stream.must_follow.push_back(event.work);
    return cudaSuccess;
  }
  if (event.capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.capture->streams.push_back(&stream);
  } else if (stream.capture != event.capture) {
    stream.capture->is_invalid = true;
    event.capture->is_invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream.front.insert(stream.front.end(), event.nodes.begin(), event.nodes.end());
  return cudaSuccess;
}

}  // namespace
}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  const Lock lock;
  if (const auto refused =
          enter("cudaEventCreateWithFlags", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
  if ((flags & ~kKnown) != 0) return answer(cudaErrorInvalidValue);
  auto* const event = new CUevent_st;
  event->device = current_device();
  live().insert(event);
  *handle = event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const Lock lock;
  if (handle == nullptr) return answer(cudaErrorInvalidResourceHandle);
  (void)event_of("cudaEventDestroy", handle);
  live().erase(handle);
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  const Lock lock;
  CUevent_st& event = event_of("cudaEventRecord", handle);
  CUstream_st& stream = stream_of("cudaEventRecord", on);
  if (const auto refused = enter("cudaEventRecord", stream.device)) return *refused;
  if (event.device != stream.device) return answer(cudaErrorInvalidResourceHandle);
  if (stream.capture != nullptr) {
    if (stream.capture->is_invalid) return answer(cudaErrorStreamCaptureInvalidated);
    event.capture = stream.capture;
    event.nodes = stream.front;
    event.work = nullptr;
    return cudaSuccess;
  }
  event.capture = nullptr;
  event.work = end_of(stream);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Lock lock;
  const CUevent_st& event = event_of("cudaEventQuery", handle);
  if (const auto refused = enter("cudaEventQuery", event.device)) return *refused;
  if (invalidate(event)) return answer(cudaErrorCapturedEvent);
  // Not being ready is an error like others: cudaGetLastError() finds it.
  if (!poll(event.work)) return answer(cudaErrorNotReady);
  return answer(device_status(event.device));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  Lock lock;
  const CUevent_st& event = event_of("cudaEventSynchronize", handle);
  if (const auto refused = enter("cudaEventSynchronize", event.device)) return *refused;
  if (invalidate(event)) return answer(cudaErrorCapturedEvent);
  const Work work = event.work;  // what it waits for may be another's when it returns
  const int device = event.device;
  wait_for(lock, work);
  return answer(device_status(device));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t waits, cudaEvent_t handle, unsigned flags) {
  const Lock lock;
  CUevent_st& event = event_of("cudaStreamWaitEvent", handle);
  CUstream_st& stream = stream_of("cudaStreamWaitEvent", waits);
  if (const auto refused = enter("cudaStreamWaitEvent", stream.device)) return *refused;
  if (flags != 0) return answer(cudaErrorInvalidValue);
  return answer(join(stream, event));
}
}
