#include "cuda/device_arena.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <utility>

#include "common/check.hpp"
#include "common/device_error.hpp"
#include "common/log.hpp"
#include "cuda/capture_gate.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {
namespace {

constexpr std::uint64_t kAlignment = 512;
// Small allocations share blocks of this size; larger ones get a dedicated block, which is returned
// to the driver when it is free.
constexpr std::uint64_t kBlock = 64ULL << 20U;
// On both sides of a separate allocation.
constexpr std::size_t kRedZone = 512;
constexpr int kRed = 0xFD;

std::uint64_t whole(std::uint64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// Returns false if the device has failed.
bool read(const std::byte* from, std::span<std::byte> into) noexcept {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return false;
  const StreamHandle owner(stream);
  return cudaMemcpyAsync(into.data(), from, into.size(), cudaMemcpyDeviceToHost, stream) ==
             cudaSuccess &&
         cudaStreamSynchronize(stream) == cudaSuccess;
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

DeviceArena::Blocks DeviceArena::blocks_of_environment() {
  const char* const text = std::getenv("TAUTLINE_DEVICE_MEMORY");
  if (text == nullptr || std::string_view(text) == "shared") return Blocks::kShared;
  if (std::string_view(text) == "separate") return Blocks::kSeparate;
  throw DeviceError(
      fmt::format("TAUTLINE_DEVICE_MEMORY must be shared or separate, is \"{}\"", text));
}

DeviceArena::DeviceArena(int device, std::string device_name, Blocks blocks)
    : device_(device), device_name_(std::move(device_name)), kind_(blocks) {}

DeviceArena::~DeviceArena() {
  for (const Block& block : blocks_) (void)cudaFree(block.base);
  for (const auto& [address, one] : separate_) (void)cudaFree(address - kRedZone);
}

void* DeviceArena::allocate(Bytes size, std::string_view what) {
  if (size.value() == 0) return nullptr;
  const std::scoped_lock lock(mutex_);
  if (size.value() > std::uint64_t{1} << 48U) fail_without_room(size, what);
  const std::uint64_t rounded = whole(size.value());
  if (kind_ == Blocks::kSeparate) return allocate_separately(size, what);
  void* address = take_from_blocks(rounded);
  if (address == nullptr) {
    std::uint64_t length = std::max(rounded, kBlock);
    void* base = nullptr;
    if (cudaMalloc(&base, length) != cudaSuccess) {
      (void)cudaGetLastError();
      length = rounded;
      if (cudaMalloc(&base, length) != cudaSuccess) {
        (void)cudaGetLastError();
        fail_without_room(size, what);
      }
    }
    blocks_.push_back({static_cast<std::byte*>(base), ArenaMap(length, kAlignment)});
    address = take_from_blocks(rounded);
  }
  taken_ += rounded;
  return address;
}

/// REQUIRES: the lock.
void* DeviceArena::allocate_separately(Bytes size, std::string_view what) {
  void* base = nullptr;
  if (cudaMalloc(&base, size.value() + 2 * kRedZone) != cudaSuccess) {
    (void)cudaGetLastError();
    fail_without_room(size, what);
  }
  auto* const address = static_cast<std::byte*>(base) + kRedZone;
  // On its own stream: the default one must not be used while another thread captures.
  const StreamHandle stream = make_stream();
  check(cudaMemsetAsync(base, kRed, kRedZone, stream.get()), "cudaMemsetAsync", what);
  check(cudaMemsetAsync(address + size.value(), kRed, kRedZone, stream.get()), "cudaMemsetAsync",
        what);
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize", what);
  separate_[address] = {size.value(), std::string(what)};
  taken_ += whole(size.value());
  return address;
}

/// A write into a red zone is our own bug: the process aborts. REQUIRES: the lock.
void DeviceArena::release_separate(std::byte* place) noexcept {
  const auto found = separate_.extract(place);
  if (found.empty()) return;
  const Separate& one = found.mapped();
  taken_ -= whole(one.size);
  // Nothing is checked while a thread captures: the wait for the device would invalidate it.
  const std::unique_lock gate(captures(), std::try_to_lock);
  std::array<std::array<std::byte, kRedZone>, 2> zones{};
  const bool is_read = gate.owns_lock() && cudaDeviceSynchronize() == cudaSuccess &&
                       read(place - kRedZone, zones[0]) && read(place + one.size, zones[1]);
  if (!is_read) (void)cudaGetLastError();
  for (std::size_t side = 0; is_read && side < zones.size(); ++side) {
    const bool is_red =
        std::ranges::all_of(zones[side], [](std::byte byte) { return byte == std::byte{kRed}; });
    if (is_red) continue;
    log::error("CUDA device {}: written {} the {} bytes of {}", device_,
               side == 0 ? "before" : "behind", one.size, one.what);
    TAUT_CHECK(false, "a write outside of a block of device memory");
  }
  (void)cudaFree(place - kRedZone);
}

void* DeviceArena::take_from_blocks(std::uint64_t size) {
  for (Block& block : blocks_) {
    // A dedicated block is not split: it would never become free as a whole.
    if (block.map.size() > kBlock && size != block.map.size()) continue;
    if (const auto offset = block.map.take(size)) return block.base + *offset;
  }
  return nullptr;
}

void DeviceArena::release(void* address) noexcept {
  const std::scoped_lock lock(mutex_);
  auto* const place = static_cast<std::byte*>(address);
  if (kind_ == Blocks::kSeparate) return release_separate(place);
  const auto block = std::ranges::find_if(blocks_, [&](const Block& candidate) {
    return place >= candidate.base && place < candidate.base + candidate.map.size();
  });
  if (block == blocks_.end()) return;
  const std::uint64_t before = block->map.taken();
  block->map.give_back(static_cast<std::uint64_t>(place - block->base));
  taken_ -= before - block->map.taken();
  if (block->map.empty() && block->map.size() > kBlock) {
    (void)cudaFree(block->base);
    blocks_.erase(block);
  }
}

Bytes DeviceArena::taken() const {
  const std::scoped_lock lock(mutex_);
  return Bytes(taken_);
}

void DeviceArena::fail_without_room(Bytes size, std::string_view what) const {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) (void)cudaGetLastError();
  throw DeviceError(fmt::format(
      "CUDA device {} ({}): not enough memory for {}: {} required, {} of {} free on the device, {} "
      "are taken; use a smaller batch, or set device_memory_budget",
      device_, device_name_, what, mebibytes(size.value()), mebibytes(free), mebibytes(total),
      mebibytes(taken_)));
}

}  // namespace taut::cuda
