// What belongs to one device is not used on another.
#include <cudnn.h>

#include <cstdlib>

#include "tests/support/catch.hpp"
#include "tests/twin/kernels/start_kernel.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/libraries/library_work.hpp"
#include "tests/twin/stream_queue.hpp"

using namespace taut::twin;
using namespace taut::twin::test;

namespace {

// Read when the first call requests the number of devices.
const int two_devices = setenv("TAUTLINE_TWIN_DEVICES", "2", 1);

/// A stream of the second device; the thread's device is the first.
cudaStream_t second_stream() {
  REQUIRE(two_devices == 0);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  return stream;
}

}  // namespace

TEST_CASE("a launch needs the device of its stream to be its thread's", "[twin]") {
  const cudaStream_t stream = second_stream();
  start_kernel({.name = "test", .stream = stream}, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  start_kernel({.name = "test", .stream = stream}, [] {});
  CHECK(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("an event is recorded on its own device and waited for on any", "[twin]") {
  const cudaStream_t stream = second_stream();
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
}

TEST_CASE("a handle of cuDNN is used by threads on its own device", "[twin][cudnn]") {
  const cudaStream_t stream = second_stream();
  cudnnHandle_t library = nullptr;
  REQUIRE(cudnnCreate(&library) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnSetStream(library, stream) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  REQUIRE_BROKEN("cudnn.handle-device", {
    (void)cudaSetDevice(1);
    (void)cudnnSetStream(library, stream);
  });
  CHECK(cudnnDestroy(library) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("a library queues its work on streams of its own device", "[twin]") {
  const cudaStream_t stream = second_stream();
  REQUIRE_BROKEN("library.device", {
    queue_work({.call = "test", .about = "", .stream = stream, .operands = {}}, [] {});
  });
}

TEST_CASE("a library's operands are memory of its own device", "[twin]") {
  REQUIRE(two_devices == 0);
  void* const of_second = allocate_device_memory(1, 16, "a test's values");
  REQUIRE(of_second != nullptr);
  REQUIRE_BROKEN("memory.device", {
    queue_work({.call = "test", .about = "", .operands = {{"x", of_second, 16}}}, [] {});
  });
}
