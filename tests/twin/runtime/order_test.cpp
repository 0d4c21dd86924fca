#include <cuda_runtime_api.h>

#include <set>
#include <string>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"

// When queued work runs, and what errors do to it.
namespace taut::twin {
namespace {

cudaStream_t stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t created = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&created, flags) == cudaSuccess);
  return created;
}

cudaEvent_t event() {
  cudaEvent_t created = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&created, cudaEventDisableTiming) == cudaSuccess);
  return created;
}

/// What ran so far.
struct Trace {
  std::string text;
  void queue(cudaStream_t on, char name) {
    enqueue(on, std::string(1, name), {}, [this, name] { text += name; });
  }
};

}  // namespace

TEST_CASE("work runs as late as its order allows, and only if it is waited for", "[twin]") {
  set_seed(1);
  Trace trace;
  const cudaStream_t a = stream();
  const cudaStream_t b = stream();
  trace.queue(a, 'a');
  trace.queue(b, 'b');
  CHECK(trace.text.empty());
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(trace.text == "b");
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(trace.text == "ba");
}

TEST_CASE("streams without an event between them run in either order", "[twin]") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    set_seed(seed);
    Trace trace;
    const cudaStream_t a = stream();
    const cudaStream_t b = stream();
    trace.queue(a, 'a');
    trace.queue(b, 'b');
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    seen.insert(trace.text);
  }
  CHECK(seen == std::set<std::string>{"ab", "ba"});
}

TEST_CASE("a stream waits for an event as recorded at the time of the wait", "[twin]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    Trace trace;
    const cudaStream_t a = stream();
    const cudaStream_t b = stream();
    const cudaEvent_t done = event();
    CHECK(cudaStreamWaitEvent(b, done, 0) == cudaSuccess);  // never recorded: no wait
    trace.queue(a, 'a');
    CHECK(cudaEventRecord(done, a) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(b, done, 0) == cudaSuccess);
    trace.queue(b, 'b');
    CHECK(cudaStreamSynchronize(b) == cudaSuccess);
    CHECK(trace.text == "ab");
  }
}

TEST_CASE("blocking streams wait for the legacy default stream and it for them", "[twin]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    Trace trace;
    const cudaStream_t blocking = stream(cudaStreamDefault);
    trace.queue(blocking, 'a');
    trace.queue(nullptr, 'b');
    trace.queue(blocking, 'c');
    CHECK(cudaStreamSynchronize(blocking) == cudaSuccess);
    CHECK(trace.text == "abc");
  }
}

TEST_CASE("an event that is polled becomes ready and leaves its error", "[twin]") {
  set_seed(1);
  Trace trace;
  const cudaStream_t a = stream();
  const cudaEvent_t done = event();
  trace.queue(a, 'a');
  CHECK(cudaEventRecord(done, a) == cudaSuccess);
  int queries = 0;
  while (cudaEventQuery(done) == cudaErrorNotReady) ++queries;
  if (queries > 0) CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(trace.text == "a");
}

TEST_CASE("a thread has its own last error", "[twin]") {
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  CHECK(elsewhere == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("a stream that was destroyed may not be used", "[twin]") {
  REQUIRE_BROKEN("stream.live", {
    const cudaStream_t on = stream();
    (void)cudaStreamDestroy(on);
    (void)cudaStreamSynchronize(on);
  });
}

TEST_CASE("a lost device answers every call and runs nothing more", "[twin]") {
  // In its own process: nothing brings a device back.
  REQUIRE_BROKEN("as expected", {
    set_seed(1);
    Trace trace;
    const cudaStream_t on = stream();
    trace.queue(on, 'a');
    fail_device(0, cudaErrorIllegalAddress);
    const bool sticks = cudaStreamSynchronize(on) == cudaErrorIllegalAddress &&
                        cudaGetLastError() == cudaErrorIllegalAddress &&
                        cudaGetLastError() == cudaErrorIllegalAddress;
    if (sticks && trace.text.empty()) report_violation("as expected", "");
  });
}

}  // namespace taut::twin
