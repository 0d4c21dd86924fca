#include "cuda/device_arena.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/device_error.hpp"

namespace taut::cuda {
namespace {

constexpr std::uint64_t kAlignment = 512;
// Small things share blocks of this size; what is larger gets a block of its own, which goes back
// to the driver when it is free.
constexpr std::uint64_t kBlock = 64ULL << 20U;

std::uint64_t whole(std::uint64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

DeviceArena::DeviceArena(int device, std::string device_name, Bytes budget)
    : device_(device), device_name_(std::move(device_name)), budget_(budget) {}

DeviceArena::~DeviceArena() {
  for (const Block& block : blocks_) (void)cudaFree(block.base);
}

void* DeviceArena::allocate(Bytes size, std::string_view what) {
  if (size.value() == 0) return nullptr;
  const std::scoped_lock lock(mutex_);
  if (size.value() > std::uint64_t{1} << 48U) fail_without_room(size, what, false);
  const std::uint64_t wanted = whole(size.value());
  if (budget_.value() > 0 && taken_ + wanted > budget_.value()) fail_without_room(size, what, true);
  void* address = take_from_blocks(wanted);
  if (address == nullptr) {
    std::uint64_t length = std::max(wanted, kBlock);
    void* base = nullptr;
    if (cudaMalloc(&base, length) != cudaSuccess) {
      (void)cudaGetLastError();
      length = wanted;
      if (cudaMalloc(&base, length) != cudaSuccess) {
        (void)cudaGetLastError();
        fail_without_room(size, what, false);
      }
    }
    blocks_.push_back({static_cast<std::byte*>(base), ArenaMap(length, kAlignment)});
    address = take_from_blocks(wanted);
  }
  taken_ += wanted;
  return address;
}

void* DeviceArena::take_from_blocks(std::uint64_t size) {
  for (Block& block : blocks_) {
    // A block of its own is not cut up: it would never become free as a whole.
    if (block.map.size() > kBlock && size != block.map.size()) continue;
    if (const auto offset = block.map.take(size)) return block.base + *offset;
  }
  return nullptr;
}

void DeviceArena::release(void* address) noexcept {
  const std::scoped_lock lock(mutex_);
  auto* const place = static_cast<std::byte*>(address);
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

void DeviceArena::set_budget(Bytes budget) {
  const std::scoped_lock lock(mutex_);
  budget_ = budget;
}

Bytes DeviceArena::budget() const {
  const std::scoped_lock lock(mutex_);
  return budget_;
}

void DeviceArena::fail_without_room(Bytes size, std::string_view what, bool over_budget) const {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) (void)cudaGetLastError();
  const std::string budget = budget_.value() > 0
                                 ? fmt::format("{} of a device_memory_budget of {} are taken",
                                               mebibytes(taken_), mebibytes(budget_.value()))
                                 : fmt::format("{} are taken, no budget is set", mebibytes(taken_));
  throw DeviceError(fmt::format(
      "CUDA device {} ({}): no room for {}: {} needed, {} of {} free on the device, {}; {}",
      device_, device_name_, what, mebibytes(size.value()), mebibytes(free), mebibytes(total),
      budget, over_budget ? "raise the budget or use a smaller batch" : "use a smaller batch"));
}

}  // namespace taut::cuda
