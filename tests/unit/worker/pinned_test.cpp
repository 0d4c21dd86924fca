#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "tests/support/catch.hpp"
#include "worker/device/pinned_memory.hpp"
#include "worker/device/pinned_parts.hpp"
#include "worker/device/pinned_peers.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/plan/wrapped_backend.hpp"

namespace taut::worker {
namespace {

/// A device that pins a given number of parts or blocks of host memory, and knows which.
class ScarceDevice final : public WrappedBackend {
 public:
  ScarceDevice(Backend& cpu, int max_pinned) : WrappedBackend(cpu), left_(max_pinned) {}

  DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override {
    return inner().allocate(size, kind, name);
  }
  using WrappedBackend::allocate;
  void on_call(Stream& /*stream*/, DeviceCall /*call*/) override {}
  HostBuffer allocate_host(Bytes size) override {
    take_one();
    return inner().allocate_host(size);
  }
  void pin_host(std::span<std::byte> part) override {
    take_one();
    pinned[part.data()] = part.size();
  }
  void pin_host_to_read(std::span<const std::byte> part) override {
    take_one();
    pinned[part.data()] = part.size();
  }
  void unpin_host(std::span<const std::byte> part) noexcept override {
    if (pinned.erase(part.data()) == 0) ++strange;
  }

  std::map<const std::byte*, std::size_t> pinned;
  int pins = 0;
  int strange = 0;  // parts given back that were not pinned

 private:
  void take_one() {
    ++pins;
    if (left_ == 0) throw DeviceError("no memory may be pinned any more");
    --left_;
  }

  int left_;
};

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

}  // namespace

TEST_CASE("all parts of an arena are pinned, and given back before the arena is", "[pinned]") {
  const auto host = cpu();
  ScarceDevice device(*host, 100);
  std::vector<std::byte> memory(300);
  const std::span<std::byte> whole(memory);
  {
    PinnedParts parts(device);
    for (std::size_t i = 0; i < 3; ++i) parts.add(whole.subspan(100 * i, 100));
    CHECK(device.pinned.size() == 3);
  }
  CHECK(device.pinned.empty());
  CHECK(device.strange == 0);
}

TEST_CASE("a part that cannot be pinned leaves the earlier ones, and no later one is tried",
          "[pinned]") {
  const auto host = cpu();
  ScarceDevice device(*host, 2);
  std::vector<std::byte> memory(500);
  const std::span<std::byte> whole(memory);
  {
    PinnedParts parts(device);
    parts.add(whole.subspan(0, 100));
    parts.add(whole.subspan(100, 100));
    CHECK(device.pinned.size() == 2);
    parts.add(whole.subspan(200, 100));
    CHECK(device.pinned.size() == 2);
    parts.add(whole.subspan(300, 100));
    CHECK(device.pins == 3);
    CHECK(device.pinned.size() == 2);
  }
  CHECK(device.pinned.empty());
  CHECK(device.strange == 0);
}

TEST_CASE("a growing arena is pinned by the device that has its own memory", "[pinned]") {
  const auto host = cpu();
  CHECK_FALSE(pinning(*host));
  ScarceDevice device(*host, 100);
  {
    const auto arena = SharedArena::create(Bytes(64U << 20U), pinning(device)).value();
    void* const block = arena->allocate(1000);
    CHECK_FALSE(device.pinned.empty());
    arena->deallocate(block, 1000);
  }
  CHECK(device.pinned.empty());
}

TEST_CASE("updates are in the device's host memory while it has some, and then in plain memory",
          "[pinned]") {
  const auto host = cpu();
  CHECK(update_memory(*host) == nullptr);
  ScarceDevice device(*host, 2);
  const auto memory = update_memory(device);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 4; ++i) {
    blocks.push_back(memory->allocate(1000));
    CHECK(reinterpret_cast<std::uintptr_t>(blocks.back()) % 64 == 0);
    // All of it may be written.
    std::fill_n(static_cast<std::byte*>(blocks.back()), 1000, std::byte{1});
  }
  CHECK(device.pins == 4);
  // A sanitizer sees one that goes back to where it did not come from.
  for (void* const block : blocks) memory->deallocate(block, 1000);
}

TEST_CASE("what is pinned of servers' memory is known, within its limit", "[pinned]") {
  const auto host = cpu();
  CHECK(peer_pinning(*host) == nullptr);
  ScarceDevice device(*host, 3);
  std::vector<std::byte> memory(600);
  const std::span<const std::byte> whole(memory);
  {
    PinnedPeers peers(device, Bytes(400));
    CHECK_FALSE(peers.covers(whole.first(1)));
    CHECK(peers.pin(whole.subspan(100, 100)));
    CHECK(peers.pin(whole.subspan(200, 100)));
    CHECK(peers.covers(whole.subspan(100, 200)));
    CHECK(peers.covers(whole.subspan(199, 2)));
    CHECK(peers.covers(whole.subspan(299, 1)));
    CHECK_FALSE(peers.covers(whole.subspan(99, 2)));
    CHECK_FALSE(peers.covers(whole.subspan(299, 2)));
    // There is a gap before this one.
    CHECK(peers.pin(whole.subspan(400, 100)));
    CHECK_FALSE(peers.covers(whole.subspan(250, 200)));
    // The device pins no more, and then more than the limit is asked for.
    CHECK_FALSE(peers.pin(whole.subspan(300, 100)));
    CHECK(device.pins == 4);
    CHECK_FALSE(peers.pin(whole.subspan(300, 200)));
    CHECK(device.pins == 4);
    peers.unpin(whole.subspan(200, 100));
    CHECK_FALSE(peers.covers(whole.subspan(199, 2)));
    CHECK(peers.covers(whole.subspan(100, 100)));
    peers.unpin(whole.subspan(100, 100));
    peers.unpin(whole.subspan(400, 100));
  }
  CHECK(device.pinned.empty());
  CHECK(device.strange == 0);
}

TEST_CASE("a pool's buffers may outlive the pool, the device's as well", "[pinned]") {
  const auto host = cpu();
  Buffer kept;
  {
    ScarceDevice device(*host, 100);
    BufferPool pool(Bytes(1U << 20U), update_memory(device));
    kept = pool.acquire(4000);
    CHECK(device.pins == 1);
  }
  std::ranges::fill(kept.floats(), 1.0F);
}

}  // namespace taut::worker
