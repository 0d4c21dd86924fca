#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "cuda/fault.hpp"
#include "cuda/handles.hpp"
#include "worker/engine/cuda/device.hpp"
#include "worker/engine/relying_stream.hpp"
#include "worker/engine/stream.hpp"

namespace taut {

/// A CUDA stream with the resources that operations queued on it share: scratch memory, a cuDNN
/// handle, the clock that kernels read, and the place where they report faults in their data.
class CudaStream final : public Stream, public RelyingStream {
 public:
  explicit CudaStream(CudaDevice& device);
  ~CudaStream() override;

  /// Waits, and throws the fault that a kernel found. Errors: DeviceError; std::invalid_argument.
  void finish() override;
  /// A mark's finish() throws the faults of the marked work, as the stream's finish() does.
  [[nodiscard]] std::unique_ptr<Mark> make_mark() override;
  void rely_on(Stream& other) override;
  void rely_on_none() noexcept override { device_.rely_on_none(); }

  /// Makes the stream's device the thread's, and returns the stream for a launch.
  [[nodiscard]] cudaStream_t enter();
  /// The stream only, whatever the thread's device.
  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }
  [[nodiscard]] CudaDevice& device() { return device_; }

  /// Parts of scratch memory, each aligned to 256 bytes, valid until the next call of this
  /// function. Grows, and waits for the stream to do so, if the largest call so far was smaller.
  /// lent  is used instead if it is large enough
  template <std::size_t kParts>
  [[nodiscard]] std::array<void*, kParts> scratch(const std::array<std::size_t, kParts>& sizes,
                                                  DeviceSpan<float> lent = {});

  /// How often scratch memory was used or moved: while unchanged, its contents are intact.
  [[nodiscard]] std::uint64_t scratch_uses() const { return scratch_uses_; }

  /// A handle that queues on this stream.
  [[nodiscard]] cudnnHandle_t cudnn();
  /// Where kernels report a fault; from now on finish() checks it.
  [[nodiscard]] cuda::Fault* fault();
  /// Returns device memory that holds `clock` when the work queued next runs.
  [[nodiscard]] const std::int64_t* clock_at(Clock clock);
  /// The same memory without changing it: it holds the clock of the last forward, whether the host
  /// queued it or the device replayed it.
  [[nodiscard]] const std::int64_t* clock_of_forward() const;

  /// As Backend's. Work under one key first runs directly a few times, so that libraries load their
  /// kernels and scratch memory grows; then it is recorded, and from then on replayed.
  [[nodiscard]] bool begin_repeat(std::uint64_t key, Clock clock);
  void end_repeat();
  void abandon_repeat() noexcept;

 private:
  static constexpr std::size_t kAlignment = 256;
  struct Repeat {
    int passes = 0;
    cuda::GraphExecHandle graph;
  };
  class CudaMark;
  /// Queues a copy of the fault, if kernels may have found one.
  void copy_fault(const HostBuffer& into);
  void throw_fault(const HostBuffer& found);
  [[nodiscard]] cuda::GraphExecHandle end_capture();
  [[nodiscard]] std::byte* reserve(std::size_t bytes);

  CudaDevice& device_;
  cuda::StreamHandle stream_;
  cuda::CudnnHandle cudnn_;
  DeviceBuffer scratch_;
  std::uint64_t scratch_uses_ = 0;
  std::vector<DeviceBuffer> outgrown_;  // scratch memory to which recorded work still refers
  DeviceBuffer small_;                  // the fault, then the clock
  HostBuffer found_;                    // the fault, on the host
  std::optional<Clock> clock_;          // the value of the device's clock
  bool asks_for_faults_ = false;
  std::unordered_map<std::uint64_t, Repeat> repeats_;
  Repeat* recording_ = nullptr;               // the recording in progress
  std::shared_lock<std::shared_mutex> gate_;  // held during the recording
  bool has_recorded_ = false;
};

/// The stream that was passed to a backend's operation. REQUIRES: this backend created it.
[[nodiscard]] inline CudaStream& on(Stream& stream) {
  return static_cast<CudaStream&>(stream);
}

template <std::size_t kParts>
std::array<void*, kParts> CudaStream::scratch(const std::array<std::size_t, kParts>& sizes,
                                              DeviceSpan<float> lent) {
  ++scratch_uses_;
  std::size_t total = 0;
  std::array<std::size_t, kParts> offsets{};
  for (std::size_t i = 0; i < kParts; ++i) {
    offsets[i] = total;
    total += (sizes[i] + kAlignment - 1) / kAlignment * kAlignment;
  }
  const bool fits = !lent.empty() && total <= lent.size_bytes().value();
  std::byte* base = fits ? reinterpret_cast<std::byte*>(lent.address()) : reserve(total);
  std::array<void*, kParts> parts{};
  for (std::size_t i = 0; i < kParts; ++i) parts[i] = base + offsets[i];
  return parts;
}

/// Pinned host memory from CUDA.
[[nodiscard]] HostBuffer allocate_pinned(Bytes size);

}  // namespace taut
