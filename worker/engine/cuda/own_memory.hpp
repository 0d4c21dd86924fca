#pragma once

#include <cstddef>
#include <initializer_list>

#include "worker/engine/cuda/device.hpp"
#include "worker/engine/own_memory_parts.hpp"

// The memory that operations on CUDA keep or use in addition to their operands
// (DeviceOp::own_memory).
namespace taut::cuda_ops {

inline constexpr std::size_t kOwnAlignment = 256;

/// Floats or 32-bit integers: a dedicated block, allocated on first use, or a part of lent memory.
class OwnMemory {
 public:
  OwnMemory() = default;
  /// what  its name in errors if memory runs out: a literal
  OwnMemory(CudaDevice& device, std::int64_t count, const char* what)
      : device_(&device), count_(static_cast<std::size_t>(count)), what_(what) {}

  [[nodiscard]] DeviceSpan<float> span() const {
    if (at_ == nullptr && count_ > 0) {
      block_ = device_->allocate(Bytes(count_ * sizeof(float)), what_);
      at_ = block_.as<float>().address();
    }
    return {at_, count_};
  }
  [[nodiscard]] float* floats() const { return span().address(); }
  [[nodiscard]] std::int32_t* integers() const {
    return reinterpret_cast<std::int32_t*>(span().address());
  }
  /// The number of floats up to where the next part may start.
  [[nodiscard]] std::size_t room() const {
    constexpr std::size_t kUnit = kOwnAlignment / sizeof(float);
    return (count_ + kUnit - 1) / kUnit * kUnit;
  }
  void lend(float* at) {
    block_ = DeviceBuffer();
    at_ = at;
  }

 private:
  CudaDevice* device_ = nullptr;
  std::size_t count_ = 0;
  const char* what_ = "";
  mutable DeviceBuffer block_;
  mutable float* at_ = nullptr;
};

using taut::bytes_of;
using taut::lend_in_turn;

/// Bytes that CudaStream::scratch() needs for parts of these sizes.
[[nodiscard]] inline Bytes scratch_bytes(std::initializer_list<std::size_t> parts) {
  std::size_t sum = 0;
  for (const std::size_t part : parts) {
    sum += (part + kOwnAlignment - 1) / kOwnAlignment * kOwnAlignment;
  }
  return Bytes(sum);
}

}  // namespace taut::cuda_ops
