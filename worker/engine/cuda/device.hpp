#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/convolution.hpp"
#include "cuda/device_arena.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/handles.hpp"
#include "worker/engine/backend.hpp"
#include "worker/engine/memory_use.hpp"

namespace taut {

/// Shared by all operations on one CUDA device: its memory, its libraries, and how they compute.
/// Outlives every operation, stream and buffer of its backend.
/// Thread    any
class CudaDevice {
 public:
  CudaDevice(int index, cuda::DeviceFacts facts);

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const cuda::DeviceFacts& facts() const { return facts_; }
  /// Makes it the calling thread's device: CUDA stores one per thread.
  void enter() const;

  /// From now on every wait for this device's work fails: an exchange with another device was
  /// aborted, and its results are undefined.
  void cut_off() const { is_cut_off_ = true; }
  /// From now on this device's results depend on the other's memory.
  /// stream  of the other device, never captured; outlives this, or rely_on_none()
  void rely_on(const CudaDevice& other, cudaStream_t stream);
  void rely_on_none() noexcept;
  /// Must be called after each wait.
  /// Errors    DeviceError: an exchange was aborted, or a device that this one relies on has failed
  void check_whole() const {
    if (is_cut_off_) [[unlikely]]
      fail_cut_off();
    if (relies_) [[unlikely]]
      check_relied();
  }

  [[nodiscard]] DeviceBuffer allocate(Bytes size, std::string_view what);
  [[nodiscard]] DeviceBuffer allocate_floats(std::int64_t count, std::string_view what) {
    return allocate(Bytes(static_cast<std::uint64_t>(count) * sizeof(float)), what);
  }

  /// Memory in use by the arena, and free on the whole device.
  [[nodiscard]] DeviceMemoryUse memory_use() const;

  void set_math(const MathOptions& options) { math_ = options; }
  [[nodiscard]] const MathOptions& math() const { return math_; }
  /// The number format of products and convolutions, and of those that need at least TF32.
  [[nodiscard]] cuda::Numbers numbers() const;
  [[nodiscard]] cuda::Numbers wide_numbers() const;

  [[nodiscard]] cublasLtHandle_t cublas_lt() const { return cublas_lt_.get(); }
  /// For searches while operations are created; each stream has its own handles.
  [[nodiscard]] cudnnHandle_t cudnn();
  [[nodiscard]] cuda::ConvolutionCache& convolutions() { return convolutions_; }
  /// The maximum workspace of one operation, in addition to its operands, and of a matrix product.
  [[nodiscard]] std::size_t workspace_limit() const;
  [[nodiscard]] std::size_t product_workspace() const;

 private:
  struct Relied {
    const CudaDevice* device;
    cudaStream_t stream;
  };
  [[noreturn]] void fail_cut_off() const;
  void check_relied() const;

  const int index_;
  const cuda::DeviceFacts facts_;
  mutable std::atomic<bool> is_cut_off_{false};
  std::atomic<bool> relies_{false};
  mutable std::mutex relied_mutex_;
  std::vector<Relied> relied_;
  cuda::DeviceArena arena_;
  cuda::CublasLtHandle cublas_lt_;
  std::mutex mutex_;  // guards cudnn_
  cuda::CudnnHandle cudnn_;
  cuda::ConvolutionCache convolutions_;
  MathOptions math_;
};

}  // namespace taut
