#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/twin/kernels/start_kernel.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"

// What the twin knows of memory, and that it objects to what is not allowed.
namespace taut::twin {
namespace {

constexpr std::size_t kBytes = 1000;

cudaStream_t stream() {
  cudaStream_t created = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking) == cudaSuccess);
  return created;
}

std::byte* device_bytes(std::size_t bytes = kBytes) {
  void* begin = nullptr;
  REQUIRE(cudaMalloc(&begin, bytes) == cudaSuccess);
  return static_cast<std::byte*>(begin);
}

std::byte* pinned_bytes(std::size_t bytes = kBytes) {
  void* begin = nullptr;
  REQUIRE(cudaHostAlloc(&begin, bytes, cudaHostAllocPortable) == cudaSuccess);
  return static_cast<std::byte*>(begin);
}

/// One thread of a kernel that does this.
void run_thread(cudaStream_t on, const std::function<void()>& work) {
  start_kernel({.name = "test", .stream = on}, work);
  REQUIRE(cudaStreamSynchronize(on) == cudaSuccess);
}

}  // namespace

TEST_CASE("the host may not touch device memory", "[twin]") {
  REQUIRE_BROKEN("memory.host", {
    volatile std::byte* const at = device_bytes();
    const cudaStream_t on = stream();  // a call, after which faults are the twin's
    (void)on;
    at[10] = std::byte{1};
  });
}

TEST_CASE("memory says what it is and whose", "[twin]") {
  std::byte* const device = device_bytes();
  std::byte* const pinned = pinned_bytes();
  std::byte unknown{};
  const auto attributes_of = [](const std::byte* address) {
    cudaPointerAttributes found{};
    REQUIRE(cudaPointerGetAttributes(&found, address) == cudaSuccess);
    return found;
  };
  CHECK(attributes_of(device + kBytes - 1).type == cudaMemoryTypeDevice);
  CHECK(attributes_of(device).device == 0);
  CHECK(attributes_of(pinned).type == cudaMemoryTypeHost);
  CHECK(attributes_of(&unknown).type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaFree(device) == cudaSuccess);
  CHECK(attributes_of(device).type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("a kernel that writes past its memory is named", "[twin]") {
  REQUIRE_BROKEN("memory.bounds", {
    std::byte* const at = device_bytes();
    run_thread(stream(), [at] { at[kBytes] = std::byte{1}; });
  });
}

TEST_CASE("a kernel that reads a page past its memory is named", "[twin]") {
  REQUIRE_BROKEN("memory.bounds", {
    volatile std::byte* const at = device_bytes();
    run_thread(stream(), [at] { (void)at[kBytes + 4096]; });
  });
}

TEST_CASE("a kernel that uses memory that was given back is named", "[twin]") {
  REQUIRE_BROKEN("memory.bounds", {
    volatile std::byte* const at = device_bytes();
    const cudaStream_t on = stream();
    (void)cudaFree(const_cast<std::byte*>(at));
    run_thread(on, [at] { (void)at[0]; });
  });
}

TEST_CASE("new memory is poisoned, and freed memory is not given out again", "[twin]") {
  std::byte* const at = device_bytes();
  float seen = 0;
  run_thread(stream(), [&] { std::memcpy(&seen, at, sizeof seen); });
  CHECK(seen != seen);
  CHECK(cudaFree(at) == cudaSuccess);
  CHECK(cudaFree(at) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(device_bytes() != at);
}

TEST_CASE("a copy over the border of two registrations is refused", "[twin]") {
  std::vector<std::byte> host(16 * kBytes);
  REQUIRE(cudaHostRegister(host.data(), 8 * kBytes, cudaHostRegisterPortable) == cudaSuccess);
  REQUIRE(cudaHostRegister(host.data() + 8 * kBytes, 8 * kBytes, cudaHostRegisterPortable) ==
          cudaSuccess);
  std::byte* const at = device_bytes();
  const cudaStream_t on = stream();
  const auto copy = [&](std::size_t from) {
    return cudaMemcpyAsync(at, host.data() + from, kBytes, cudaMemcpyHostToDevice, on);
  };
  CHECK(copy(7 * kBytes) == cudaSuccess);
  CHECK(copy(8 * kBytes - 1) == cudaErrorInvalidValue);
  CHECK(copy(8 * kBytes) == cudaSuccess);
  CHECK(cudaHostRegister(host.data() + 100, 10, cudaHostRegisterPortable) ==
        cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cudaStreamSynchronize(on) == cudaSuccess);
  CHECK(cudaHostUnregister(host.data()) == cudaSuccess);
  CHECK(cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
  // Half of it pinned, half not.
  CHECK(copy(8 * kBytes - 1) == cudaErrorInvalidValue);
  CHECK(cudaHostUnregister(host.data() + 8 * kBytes) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("memory that a copy still uses may not be unpinned", "[twin]") {
  REQUIRE_BROKEN("host.in-use", {
    set_seed(1);  // as late as possible
    std::byte* const host = pinned_bytes();
    (void)cudaMemcpyAsync(device_bytes(), host, kBytes, cudaMemcpyHostToDevice, stream());
    (void)cudaFreeHost(host);
  });
}

TEST_CASE("memory that is registered to be read is copied from and never to", "[twin]") {
  std::vector<std::byte> host(kBytes, std::byte{3});
  REQUIRE(cudaHostRegister(host.data(), kBytes, cudaHostRegisterReadOnly) == cudaSuccess);
  std::byte* const at = device_bytes();
  std::byte* const back = pinned_bytes();
  const cudaStream_t on = stream();
  CHECK(cudaMemcpyAsync(at, host.data(), kBytes, cudaMemcpyHostToDevice, on) == cudaSuccess);
  CHECK(cudaMemcpyAsync(back, at, kBytes, cudaMemcpyDeviceToHost, on) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(on) == cudaSuccess);
  CHECK(back[0] == std::byte{3});
  REQUIRE_BROKEN("host.read-only",
                 { (void)cudaMemcpyAsync(host.data(), at, kBytes, cudaMemcpyDeviceToHost, on); });
  CHECK(cudaHostUnregister(host.data()) == cudaSuccess);
}

TEST_CASE("a copy from pinned memory reads it when it runs and not when it is queued", "[twin]") {
  set_seed(1);
  std::byte* const host = pinned_bytes();
  std::byte* const at = device_bytes();
  std::byte* const back = pinned_bytes();
  const cudaStream_t on = stream();
  std::memset(host, 1, kBytes);
  REQUIRE(cudaMemcpyAsync(at, host, kBytes, cudaMemcpyHostToDevice, on) == cudaSuccess);
  std::memset(host, 2, kBytes);
  REQUIRE(cudaMemcpyAsync(back, at, kBytes, cudaMemcpyDeviceToHost, on) == cudaSuccess);
  CHECK(back[0] == std::byte{0xFF});
  REQUIRE(cudaStreamSynchronize(on) == cudaSuccess);
  CHECK(back[0] == std::byte{2});
}

TEST_CASE("a copy is refused beyond an allocation and reported against its direction", "[twin]") {
  std::byte* const at = device_bytes();
  std::byte* const host = pinned_bytes(2 * kBytes);
  const cudaStream_t on = stream();
  CHECK(cudaMemcpyAsync(at, host, kBytes + 1, cudaMemcpyHostToDevice, on) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(at + 1, 0, kBytes, on) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  REQUIRE_BROKEN("copy.direction",
                 { (void)cudaMemcpyAsync(at, host, kBytes, cudaMemcpyDeviceToHost, on); });
}

TEST_CASE("a copy onto itself is reported", "[twin]") {
  REQUIRE_BROKEN("copy.overlap", {
    std::byte* const at = device_bytes();
    (void)cudaMemcpyAsync(at + 10, at, 100, cudaMemcpyDeviceToDevice, stream());
  });
}

TEST_CASE("a device has no more memory than was set", "[twin]") {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free <= total);
  void* at = nullptr;
  CHECK(cudaMalloc(&at, free + 1) == cudaErrorMemoryAllocation);
  CHECK(at == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace taut::twin
