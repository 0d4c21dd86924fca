// What the device twin's rules (tests/twin/RULES.md) say of CUDA's runtime, asked of the runtime
// itself.
#include <cstring>
#include <thread>
#include <vector>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::size_t kPage = 4096;

/// Whole pages of the host's.
class Pages {
 public:
  explicit Pages(std::size_t count) : bytes_((count + 1) * kPage) {}
  [[nodiscard]] std::byte* at(std::size_t page) {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (kPage - begin % kPage) % kPage + page * kPage;
  }

 private:
  std::vector<std::byte> bytes_;
};

/// The status, which is no later call's any more.
cudaError_t taken(cudaError_t status) {
  (void)cudaGetLastError();
  return status;
}

}  // namespace

TEST_CASE("a copy over the border of two registrations is refused by the runtime",
          "[smoke][rules]") {
  Pages host(2);
  const Array<char> device(2 * static_cast<std::int64_t>(kPage));
  const TestStream stream;
  for (const std::size_t page : {0U, 1U}) {
    REQUIRE(cudaHostRegister(host.at(page), kPage, cudaHostRegisterPortable) == cudaSuccess);
  }
  const auto copy = [&](const std::byte* from, std::size_t bytes) {
    return cudaMemcpyAsync(device.at(), from, bytes, cudaMemcpyHostToDevice, stream);
  };
  CHECK(copy(host.at(0), kPage) == cudaSuccess);
  CHECK(copy(host.at(1), kPage) == cudaSuccess);
  // The documentation is silent about two that touch: what a runtime does is printed.
  const cudaError_t across = taken(copy(host.at(0) + kPage / 2, kPage));
  WARN("over two registrations that touch: " << cudaGetErrorString(across));
  stream.finish();
  CHECK(taken(cudaHostRegister(host.at(0), kPage, cudaHostRegisterPortable)) ==
        cudaErrorHostMemoryAlreadyRegistered);
  for (const std::size_t page : {0U, 1U}) {
    CHECK(cudaHostUnregister(host.at(page)) == cudaSuccess);
  }
  CHECK(taken(cudaHostUnregister(host.at(0))) == cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("memory that is given back twice, and more than there is, are refused",
          "[smoke][rules]") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(taken(cudaFree(memory)) == cudaErrorInvalidValue);
  CHECK(taken(cudaMalloc(&memory, std::size_t{1} << 47U)) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&memory, 100) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("a stream waits for an event as it was recorded when it was told to", "[smoke][rules]") {
  const TestStream first;
  const TestStream second;
  const Array<char> from(1 << 20);
  const Array<char> to(1 << 20);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);  // never recorded: no wait
  CHECK(cudaMemsetAsync(from.at(), 1, 1 << 20, first) == cudaSuccess);
  CHECK(cudaEventRecord(event, first) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
  CHECK(cudaMemcpyAsync(to.at(), from.at(), 1 << 20, cudaMemcpyDeviceToDevice, second) ==
        cudaSuccess);
  CHECK(to.values(second) == std::vector<char>(1 << 20, 1));
  first.finish();
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("what a capture forbids invalidates it, and other threads may continue",
          "[smoke][rules]") {
  const TestStream stream;
  const Array<char> memory(100);
  const auto capture = [&](auto&& during) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    (void)cudaMemsetAsync(memory.at(), 1, 100, stream);
    during();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = taken(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    return ended;
  };
  CHECK(capture([] {}) == cudaSuccess);
  CHECK(capture([&] { (void)taken(cudaStreamSynchronize(stream)); }) ==
        cudaErrorStreamCaptureInvalidated);
  CHECK(capture([] {
          void* own = nullptr;
          (void)taken(cudaMalloc(&own, 100));
        }) == cudaErrorStreamCaptureInvalidated);
  // Another thread's allocation is no part of it.
  CHECK(capture([] {
          std::thread other([] {
            void* own = nullptr;
            CHECK(cudaMalloc(&own, 100) == cudaSuccess);
            CHECK(cudaFree(own) == cudaSuccess);
          });
          other.join();
        }) == cudaSuccess);
  // But a wait for the whole device is, in any thread.
  CHECK(capture([] {
          std::thread other([] { (void)taken(cudaDeviceSynchronize()); });
          other.join();
        }) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("what is captured runs at each replay with the addresses that it had", "[smoke][rules]") {
  const TestStream stream;
  const Array<char> memory(std::vector<char>(100, 5));
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaMemsetAsync(memory.at(), 1, 50, stream) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(memory.values(stream) == std::vector<char>(100, 5));
  cudaGraphExec_t ready = nullptr;
  REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
  std::vector<char> expected(100, 5);
  std::fill_n(expected.begin(), 50, char{1});
  for (int replay = 0; replay < 2; ++replay) {
    CHECK(cudaGraphLaunch(ready, stream) == cudaSuccess);
    CHECK(memory.values(stream) == expected);
  }
  CHECK(cudaGraphExecDestroy(ready) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}
