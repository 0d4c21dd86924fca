#include "worker/engine/program_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "worker/engine/cuda/program_device_module.hpp"

namespace taut {
namespace {

Error failed(int device, std::string_view call, cudaError_t status) {
  // Otherwise the program would see an error that does not stick to the context again.
  (void)cudaGetLastError();
  return make_error(ErrorCode::kIo, fmt::format("CUDA device {}: {}: {}", device, call,
                                                cudaGetErrorString(status)));
}

/// Makes a device the thread's current one, and restores the program's device at the end.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    if (before_ != device) status_ = cudaSetDevice(device);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { (void)cudaSetDevice(before_); }

  [[nodiscard]] cudaError_t status() const { return status_; }

 private:
  int before_ = 0;
  cudaError_t status_ = cudaSuccess;
};

class CudaProgramCopy final : public ProgramCopy {
 public:
  CudaProgramCopy(int device, cudaEvent_t event) : device_(device), event_(event) {}
  ~CudaProgramCopy() override {
    const OnDevice on(device_);
    if (is_queued_) (void)cudaEventSynchronize(event_);
    (void)cudaEventDestroy(event_);
  }

  Result<void> to_host(ProgramStream stream, const void* from, std::span<std::byte> into) override {
    return queue(stream, into.data(), from, into.size(), cudaMemcpyDeviceToHost);
  }
  Result<void> to_device(ProgramStream stream, std::span<const std::byte> from,
                         void* into) override {
    return queue(stream, into, from.data(), from.size(), cudaMemcpyHostToDevice);
  }

  Result<bool> is_done() override {
    if (!is_queued_) return true;
    const OnDevice on(device_);
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    is_queued_ = false;
    if (status != cudaSuccess) return failed(device_, "waiting for a copy", status);
    return true;
  }

 private:
  Result<void> queue(ProgramStream stream, void* into, const void* from, std::size_t bytes,
                     cudaMemcpyKind kind) {
    const OnDevice on(device_);
    if (on.status() != cudaSuccess) return failed(device_, "cudaSetDevice", on.status());
    auto* const queue = static_cast<cudaStream_t>(stream);
    cudaError_t status = cudaMemcpyAsync(into, from, bytes, kind, queue);
    if (status != cudaSuccess) {
      return failed(device_, fmt::format("cudaMemcpyAsync ({} bytes)", bytes), status);
    }
    // The copy is queued even if recording its event fails.
    is_queued_ = true;
    status = cudaEventRecord(event_, queue);
    if (status != cudaSuccess) {
      (void)cudaStreamSynchronize(queue);
      is_queued_ = false;
      return failed(device_, "cudaEventRecord", status);
    }
    return ok();
  }

  const int device_;
  cudaEvent_t event_;
  bool is_queued_ = false;
};

std::string words_of(const cudaPointerAttributes& memory) {
  switch (memory.type) {
    case cudaMemoryTypeHost:
      return "pinned memory of the host";
    case cudaMemoryTypeDevice:
      return fmt::format("memory of CUDA device {}", memory.device);
    case cudaMemoryTypeManaged:
      return "managed memory";
    default:
      return "memory of the host";
  }
}

class CudaProgramDevice final : public ProgramDevice {
 public:
  explicit CudaProgramDevice(int index) : index_(index) {}

  Result<void> check_memory(const void* address) const override {
    const OnDevice on(index_);
    cudaPointerAttributes memory{};
    const cudaError_t status = cudaPointerGetAttributes(&memory, address);
    if (status != cudaSuccess) return failed(index_, "cudaPointerGetAttributes", status);
    if (memory.type == cudaMemoryTypeDevice && memory.device == index_) return ok();
    if (memory.type == cudaMemoryTypeManaged) return ok();
    return invalid(fmt::format("is {}, not of CUDA device {}", words_of(memory), index_));
  }

  Result<HostBuffer> allocate_pinned(Bytes size) const override {
    const OnDevice on(index_);
    void* address = nullptr;
    const cudaError_t status = cudaHostAlloc(&address, size.value(), cudaHostAllocPortable);
    if (status != cudaSuccess) {
      return failed(index_, fmt::format("cudaHostAlloc ({} bytes)", size.value()), status);
    }
    return HostBuffer(address, size,
                      [](void*, void* freed) noexcept { (void)cudaFreeHost(freed); });
  }

  Result<std::unique_ptr<ProgramCopy>> make_copy() const override {
    const OnDevice on(index_);
    cudaEvent_t event = nullptr;
    const cudaError_t status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (status != cudaSuccess) return failed(index_, "cudaEventCreate", status);
    return std::unique_ptr<ProgramCopy>(std::make_unique<CudaProgramCopy>(index_, event));
  }

 private:
  const int index_;
};

Result<std::unique_ptr<ProgramDevice>> open(int index) {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    (void)cudaGetLastError();
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("no CUDA device can be used: {}", cudaGetErrorString(status)));
  }
  if (index < 0 || index >= devices) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("CUDA device {} does not exist; this process has {}, from 0", index, devices));
  }
  return std::unique_ptr<ProgramDevice>(std::make_unique<CudaProgramDevice>(index));
}

}  // namespace
}  // namespace taut

const char* taut_program_device_face() {
  return taut::kProgramDeviceFace;
}

void taut_program_device_open(int index, taut::Result<std::unique_ptr<taut::ProgramDevice>>& into) {
  into = taut::open(index);
}
