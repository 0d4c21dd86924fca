// The twin's NCCL: exchanges among all ranks, what an abort leaves, and what it objects to.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/libraries/device_values.hpp"
#include "tests/twin/stream_queue.hpp"

using namespace taut::twin;
using namespace taut::twin::test;

namespace {

constexpr std::size_t kCount = 1000;

// Read when the first call requests the number of devices.
const int two_devices = setenv("TAUTLINE_TWIN_DEVICES", "2", 1);

/// One rank: a device, a stream on it, and what it gives and gets.
struct Rank {
  explicit Rank(int of) : device(of) {
    REQUIRE(cudaSetDevice(of) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    from = take();
    into = take();
    std::vector<float> values(kCount, static_cast<float>(of + 1));
    copy(from, values.data(), cudaMemcpyHostToDevice);
  }
  ~Rank() {
    (void)cudaSetDevice(device);
    (void)cudaStreamSynchronize(stream);
    (void)cudaFree(from);
    (void)cudaFree(into);
    (void)cudaStreamDestroy(stream);
    (void)cudaSetDevice(0);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void copy(void* to, const void* out_of, cudaMemcpyKind kind) const {
    REQUIRE(cudaMemcpyAsync(to, out_of, bytes(), kind, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  }
  static constexpr std::size_t bytes() { return kCount * sizeof(float); }
  static float* take() {
    void* place = nullptr;
    REQUIRE(cudaMalloc(&place, bytes()) == cudaSuccess);
    return static_cast<float*>(place);
  }
  std::vector<float> read() const {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    std::vector<float> values(kCount);
    copy(values.data(), into, cudaMemcpyDeviceToHost);
    return values;
  }

  int device;
  cudaStream_t stream = nullptr;
  float* from = nullptr;
  float* into = nullptr;
};

struct Ranks {
  explicit Ranks(int count) : communicators(static_cast<std::size_t>(count)) {
    for (int i = 0; i < count; ++i) all.push_back(std::make_unique<Rank>(i));
    REQUIRE(two_devices == 0);
    REQUIRE(ncclCommInitAll(communicators.data(), count, nullptr) == ncclSuccess);
  }
  ncclResult_t reduce(std::size_t rank, std::size_t count = kCount) {
    return ncclReduce(all[rank]->from, rank == 0 ? all[rank]->into : nullptr, count, ncclFloat32,
                      ncclAvg, 0, communicators[rank], all[rank]->stream);
  }
  void finish() {
    for (const auto& rank : all) REQUIRE(cudaStreamSynchronize(rank->stream) == cudaSuccess);
  }
  void destroy() {
    finish();
    for (ncclComm_t one : communicators) REQUIRE(ncclCommDestroy(one) == ncclSuccess);
  }
  std::vector<std::unique_ptr<Rank>> all;
  std::vector<ncclComm_t> communicators;
};

}  // namespace

TEST_CASE("NCCL brings the mean of all ranks to the root", "[twin][nccl]") {
  Ranks ranks(2);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t i = 0; i < ranks.all.size(); ++i) REQUIRE(ranks.reduce(i) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(ranks.all[0]->read() == std::vector<float>(kCount, 1.5F));
  ranks.destroy();
}

TEST_CASE("NCCL brings the root's values to all ranks", "[twin][nccl]") {
  Ranks ranks(2);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t i = 0; i < ranks.all.size(); ++i) {
    const Rank& rank = *ranks.all[i];
    REQUIRE(ncclBroadcast(rank.from, rank.into, kCount, ncclFloat32, 0, ranks.communicators[i],
                          rank.stream) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (const auto& rank : ranks.all) CHECK(rank->read() == std::vector<float>(kCount, 1.0F));
  ranks.destroy();
}

TEST_CASE("NCCL connects only different devices", "[twin][nccl]") {
  const std::array devices{0, 0};
  ncclComm_t created[2] = {};
  CHECK(ncclCommInitAll(created, 2, devices.data()) != ncclSuccess);
}

TEST_CASE("NCCL does not start calls that failed within a group", "[twin][nccl]") {
  Ranks ranks(1);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclReduce(ranks.all[0]->from, nullptr, kCount, ncclFloat32, ncclAvg, 0,
                   ranks.communicators[0], ranks.all[0]->stream) == ncclInvalidArgument);
  REQUIRE(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(ncclCommDestroy(ranks.communicators[0]) == ncclSuccess);
}

TEST_CASE("an aborted communicator cannot be used", "[twin][nccl]") {
  Ranks ranks(1);
  REQUIRE(ncclCommAbort(ranks.communicators[0]) == ncclSuccess);
  REQUIRE_BROKEN("nccl.communicator", { (void)ranks.reduce(0); });
}

TEST_CASE("an aborted exchange leaves garbage and lets its streams continue", "[twin][nccl]") {
  Ranks ranks(2);
  // The other rank's device never comes to it.
  int never = 0;
  enqueue(
      ranks.all[1]->stream, "a device that hangs", {}, [] {}, [&] { return never == 1; });
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t i = 0; i < 2; ++i) REQUIRE(ranks.reduce(i) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(cudaStreamQuery(ranks.all[0]->stream) == cudaErrorNotReady);
  for (ncclComm_t one : ranks.communicators) CHECK(ncclCommAbort(one) == ncclSuccess);
  CHECK(ranks.all[0]->read() != std::vector<float>(kCount, 1.5F));
  never = 1;
  wake();
}

TEST_CASE("all ranks of one thread take part in one group", "[twin][nccl]") {
  Ranks ranks(2);
  REQUIRE_BROKEN("nccl.group", { (void)ranks.reduce(0); });
  ranks.destroy();
}

TEST_CASE("a communicator must have no pending work when it is destroyed", "[twin][nccl]") {
  Ranks ranks(2);
  REQUIRE_BROKEN("nccl.destroy", {
    enqueue(
        ranks.all[1]->stream, "a device that hangs", {}, [] {}, [] { return false; });
    (void)ncclGroupStart();
    for (std::size_t i = 0; i < 2; ++i) (void)ranks.reduce(i);
    (void)ncclGroupEnd();
    (void)ncclCommDestroy(ranks.communicators[1]);
  });
  ranks.destroy();
}

TEST_CASE("all ranks make the same call", "[twin][nccl]") {
  Ranks ranks(2);
  REQUIRE_BROKEN("nccl.same-call", {
    (void)ncclGroupStart();
    (void)ranks.reduce(0);
    (void)ranks.reduce(1, kCount - 1);
    (void)ncclGroupEnd();
  });
  ranks.destroy();
}

TEST_CASE("a communicator and its stream are of one device", "[twin][nccl]") {
  Ranks ranks(2);
  REQUIRE_BROKEN("nccl.stream", {
    (void)ncclGroupStart();
    (void)ncclReduce(ranks.all[0]->from, ranks.all[0]->into, kCount, ncclFloat32, ncclAvg, 0,
                     ranks.communicators[0], ranks.all[1]->stream);
  });
  ranks.destroy();
}

TEST_CASE("an exchange in place is at the same place", "[twin][nccl]") {
  Ranks ranks(1);
  const Rank& rank = *ranks.all[0];
  REQUIRE_BROKEN("nccl.overlap", {
    (void)ncclReduce(rank.from, rank.from + 1, kCount - 1, ncclFloat32, ncclAvg, 0,
                     ranks.communicators[0], rank.stream);
  });
  ranks.destroy();
}
