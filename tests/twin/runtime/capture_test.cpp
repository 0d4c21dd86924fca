#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"

// Recording a stream's work and replaying it.
namespace taut::twin {
namespace {

cudaStream_t stream() {
  cudaStream_t created = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking) == cudaSuccess);
  return created;
}

cudaEvent_t event() {
  cudaEvent_t created = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&created, cudaEventDisableTiming) == cudaSuccess);
  return created;
}

void begin(cudaStream_t on, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  REQUIRE(cudaStreamBeginCapture(on, mode) == cudaSuccess);
}

cudaError_t end(cudaStream_t on) {
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(on, &graph);
  CHECK((graph != nullptr) == (status == cudaSuccess));
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  return status;
}

}  // namespace

TEST_CASE("captured work runs at each replay, over both streams and in order", "[twin]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    std::string ran;
    const cudaStream_t a = stream();
    const cudaStream_t b = stream();
    const cudaEvent_t fork = event();
    const cudaEvent_t join = event();
    begin(a);
    enqueue(a, "a", {}, [&] { ran += 'a'; });
    REQUIRE(cudaEventRecord(fork, a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b, fork, 0) == cudaSuccess);
    CHECK(is_capturing(b));
    enqueue(b, "b", {}, [&] { ran += 'b'; });
    REQUIRE(cudaEventRecord(join, b) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(a, join, 0) == cudaSuccess);
    enqueue(a, "c", {}, [&] { ran += 'c'; });
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(a, &graph) == cudaSuccess);
    cudaGraphExec_t ready = nullptr;
    REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(ran.empty());
    REQUIRE(cudaGraphLaunch(ready, a) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(ready, a) == cudaSuccess);
    enqueue(a, "d", {}, [&] { ran += 'd'; });
    REQUIRE(cudaStreamSynchronize(a) == cudaSuccess);
    CHECK(ran == "abcabcd");
    REQUIRE(cudaGraphExecDestroy(ready) == cudaSuccess);
  }
}

TEST_CASE("a capture that no call of its own thread may disturb is invalidated by it", "[twin]") {
  const cudaStream_t on = stream();
  void* at = nullptr;
  begin(on);
  CHECK(cudaMalloc(&at, 100) == cudaErrorStreamCaptureUnsupported);
  CHECK(end(on) == cudaErrorStreamCaptureInvalidated);
  begin(on);
  CHECK(cudaStreamSynchronize(on) == cudaErrorStreamCaptureUnsupported);
  CHECK(end(on) == cudaErrorStreamCaptureInvalidated);
  // Another thread's call is no part of it, unless the mode is global.
  begin(on);
  std::thread([&] { CHECK(cudaMalloc(&at, 100) == cudaSuccess); }).join();
  CHECK(end(on) == cudaSuccess);
  begin(on, cudaStreamCaptureModeGlobal);
  std::thread([&] { CHECK(cudaMalloc(&at, 100) == cudaErrorStreamCaptureUnsupported); }).join();
  CHECK(end(on) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("waiting for a device from any thread invalidates its captures", "[twin]") {
  const cudaStream_t on = stream();
  begin(on);
  std::thread([] { CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); }).join();
  CHECK(end(on) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("an event of a capture cannot be queried, and one from outside cannot be waited for",
          "[twin]") {
  const cudaStream_t on = stream();
  const cudaStream_t other = stream();
  const cudaEvent_t inside = event();
  const cudaEvent_t outside = event();
  enqueue(other, "work", {}, [] {});
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  begin(on);
  REQUIRE(cudaEventRecord(inside, on) == cudaSuccess);
  CHECK(cudaEventQuery(inside) == cudaErrorCapturedEvent);
  CHECK(end(on) == cudaErrorStreamCaptureInvalidated);
  begin(on);
  set_seed(1);
  enqueue(other, "work", {}, [] {});
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(on, outside, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(end(on) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("a stream that joined a capture and did not rejoin leaves it unjoined", "[twin]") {
  const cudaStream_t on = stream();
  const cudaStream_t other = stream();
  const cudaEvent_t fork = event();
  begin(on);
  enqueue(on, "a", {}, [] {});
  REQUIRE(cudaEventRecord(fork, on) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, fork, 0) == cudaSuccess);
  enqueue(other, "b", {}, [] {});
  CHECK(cudaStreamEndCapture(other, nullptr) == cudaErrorStreamCaptureUnmatched);
  CHECK(end(on) == cudaErrorStreamCaptureUnjoined);
  CHECK(!is_capturing(other));
}

TEST_CASE("a capture must end in the thread that started it", "[twin]") {
  const cudaStream_t on = stream();
  begin(on);
  std::thread([&] {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(on, &graph) == cudaErrorStreamCaptureWrongThread);
  }).join();
  CHECK(end(on) == cudaSuccess);
}

TEST_CASE("pageable memory may not be captured", "[twin]") {
  REQUIRE_BROKEN("capture.pageable", {
    std::vector<std::byte> host(100);
    void* at = nullptr;
    (void)cudaMalloc(&at, 100);
    const cudaStream_t on = stream();
    (void)cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal);
    (void)cudaMemcpyAsync(at, host.data(), 100, cudaMemcpyHostToDevice, on);
  });
}

TEST_CASE("a replay that names memory given back since is named", "[twin]") {
  REQUIRE_BROKEN("memory.bounds", {
    void* at = nullptr;
    (void)cudaMalloc(&at, 100);
    const cudaStream_t on = stream();
    (void)cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal);
    (void)cudaMemsetAsync(at, 0, 100, on);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    (void)cudaStreamEndCapture(on, &graph);
    (void)cudaGraphInstantiate(&ready, graph, 0);
    (void)cudaFree(at);
    (void)cudaGraphLaunch(ready, on);
    (void)cudaStreamSynchronize(on);
  });
}

TEST_CASE("a stream that is captured may not be destroyed", "[twin]") {
  const cudaStream_t captured = stream();
  begin(captured);
  REQUIRE_BROKEN("capture.destroyed", { (void)cudaStreamDestroy(captured); });
  CHECK(end(captured) == cudaSuccess);
}

TEST_CASE("a graph is not launched into a capture", "[twin]") {
  const cudaStream_t captured = stream();
  begin(captured);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
  cudaGraphExec_t ready = nullptr;
  REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
  begin(captured);
  REQUIRE_BROKEN("graph.nested", { (void)cudaGraphLaunch(ready, captured); });
  CHECK(end(captured) == cudaSuccess);
}

}  // namespace taut::twin
