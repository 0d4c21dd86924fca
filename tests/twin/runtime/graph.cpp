#include "tests/twin/runtime/graph.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/counts.hpp"
#include "tests/twin/runtime/scheduler.hpp"
#include "tests/twin/runtime/stream.hpp"

namespace taut::twin {
namespace {

std::set<const void*>& live() {
  static auto* const one = new std::set<const void*>;
  return *one;
}

void require_live(const char* call, const void* handle) {
  if (live().contains(handle)) return;
  report_violation("graph.live", std::string(call) + ": a graph that does not exist, or no longer");
}

/// Whether every stream's last nodes come before the origin's.
bool is_joined(const Capture& capture) {
  std::set<std::size_t> reached;
  std::vector<std::size_t> open = capture.origin->front;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    const auto& after = capture.nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return std::ranges::all_of(capture.streams, [&](const CUstream_st* stream) {
    return std::ranges::all_of(stream->front,
                               [&](std::size_t node) { return reached.contains(node); });
  });
}

}  // namespace

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* const one = new std::vector<std::shared_ptr<Capture>>;
  return *one;
}

bool invalidate_captures_of(int device) {
  bool found = false;
  for (const auto& capture : captures()) {
    for (const CUstream_st* const stream : capture->streams) {
      if (stream->device != device) continue;
      capture->is_invalid = true;
      found = true;
    }
  }
  return found;
}

bool may_call_unsafely(std::string_view) {
  const Lock lock;
  bool may = true;
  for (const auto& capture : captures()) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool forbids = capture->mode == cudaStreamCaptureModeGlobal ||
                         (capture->mode == cudaStreamCaptureModeThreadLocal && is_own);
    if (!forbids) continue;
    capture->is_invalid = true;
    may = false;
  }
  return may;
}

}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Lock lock;
  CUstream_st& stream = stream_of("cudaStreamBeginCapture", handle);
  if (const auto refused = enter("cudaStreamBeginCapture", stream.device)) return *refused;
  // The legacy default stream can't be captured, nor one that is captured already.
  if (handle == nullptr) return answer(cudaErrorStreamCaptureImplicit);
  if (stream.capture != nullptr) return answer(cudaErrorIllegalState);
  stream.capture = std::make_shared<Capture>();
  stream.capture->mode = mode;
  stream.capture->thread = std::this_thread::get_id();
  stream.capture->origin = &stream;
  stream.capture->streams = {&stream};
  stream.front.clear();
  captures().push_back(stream.capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Lock lock;
  if (graph != nullptr) *graph = nullptr;
  CUstream_st& stream = stream_of("cudaStreamEndCapture", handle);
  if (stream.capture == nullptr) return answer(cudaErrorIllegalState);
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin != &stream) return answer(cudaErrorStreamCaptureUnmatched);
  if (graph == nullptr) return answer(cudaErrorInvalidValue);
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return answer(cudaErrorStreamCaptureWrongThread);
  }
  const auto refused = enter("cudaStreamEndCapture", stream.device);
  const bool joined = is_joined(*capture);
  for (CUstream_st* const one : capture->streams) {
    one->capture = nullptr;
    one->front.clear();
  }
  std::erase(captures(), capture);
  if (refused) return *refused;
  if (capture->is_invalid) return answer(cudaErrorStreamCaptureInvalidated);
  if (!joined) return answer(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->nodes)};
  live().insert(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph,
                                 unsigned long long flags) {
  const Lock lock;
  require_live("cudaGraphInstantiate", graph);
  if (const auto refused =
          enter("cudaGraphInstantiate", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  if (flags != 0) return answer(cudaErrorInvalidValue);
  *ready = new CUgraphExec_st{.nodes = graph->nodes, .last = nullptr};
  live().insert(*ready);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
  const Lock lock;
  require_live("cudaGraphLaunch", graph);
  CUstream_st& stream = stream_of("cudaGraphLaunch", handle);
  if (const auto refused = enter("cudaGraphLaunch", stream.device)) return *refused;
  if (stream.capture != nullptr) {
    report_violation("graph.nested", "cudaGraphLaunch into a stream that is captured");
  }
  ++counted().graph_launches;
  // A launch follows what is queued on its stream, and the graph's launch before it.
  (void)append(stream, {.what = "a graph's begin", .device = stream.device});
  const Work begin = stream.tail;
  std::vector<Work> created;
  for (const Node& node : graph->nodes) {
    std::vector<Work> after{begin, graph->last};
    for (const std::size_t before : node.after) after.push_back(created[before]);
    created.push_back(queue(node.task, std::move(after)));
  }
  stream.must_follow = std::move(created);
  stream.must_follow.push_back(graph->last);
  (void)append(stream, {.what = "a graph's end", .device = stream.device});
  graph->last = stream.tail;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock;
  require_live("cudaGraphDestroy", graph);
  live().erase(graph);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const Lock lock;
  require_live("cudaGraphExecDestroy", graph);
  live().erase(graph);
  delete graph;
  return cudaSuccess;
}
}
