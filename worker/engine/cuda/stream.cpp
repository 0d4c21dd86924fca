#include "worker/engine/cuda/stream.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "common/check.hpp"
#include "cuda/capture_gate.hpp"
#include "cuda/kernels/elementwise.hpp"
#include "worker/engine/data_fault.hpp"

namespace taut {
namespace {

constexpr int kPassesBefore = 2;
// With more keys than this the memory differs every time, so recording is useless.
constexpr std::size_t kMaxRepeats = 4096;
constexpr std::size_t kClockOffset = 256;  // after the fault, on its own cache line

}  // namespace

HostBuffer allocate_pinned(Bytes size) {
  if (size.value() == 0) return {};
  void* address = nullptr;
  cuda::check(cudaHostAlloc(&address, size.value(), cudaHostAllocPortable), "cudaHostAlloc",
              fmt::format("{} bytes of pinned memory", size.value()));
  return {address, size, [](void*, void* block) noexcept { (void)cudaFreeHost(block); }};
}

CudaStream::CudaStream(CudaDevice& device) : device_(device) {
  device_.enter();
  stream_ = cuda::make_stream();
  small_ = device_.allocate(Bytes(2 * kClockOffset), "a stream's own state");
  found_ = allocate_pinned(Bytes(sizeof(cuda::Fault)));
  cuda::check(cudaMemsetAsync(small_.as<std::byte>().address(), 0, 2 * kClockOffset, stream_.get()),
              "cudaMemsetAsync", "a stream's own state");
}

CudaStream::~CudaStream() {
  // Queued work still uses the scratch memory.
  (void)cudaStreamSynchronize(stream_.get());
}

void CudaStream::rely_on(Stream& other) {
  const CudaStream& one = on(other);
  if (&one.device_ != &device_) device_.rely_on(one.device_, one.stream_.get());
}

cudaStream_t CudaStream::enter() {
  device_.enter();
  return stream_.get();
}

void CudaStream::copy_fault(const HostBuffer& into) {
  if (!asks_for_faults_) return;
  cuda::check(cudaMemcpyAsync(into.as<cuda::Fault>().data(), small_.as<std::byte>().address(),
                              sizeof(cuda::Fault), cudaMemcpyDeviceToHost, enter()),
              "cudaMemcpyAsync", "a stream's fault");
}

void CudaStream::finish() {
  TAUT_CHECK(recording_ == nullptr, "recorded work cannot be waited for");
  try {
    copy_fault(found_);
    cuda::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  } catch (...) {
    // Queued work may write to memory that the caller releases when it sees the exception.
    (void)cudaStreamSynchronize(stream_.get());
    throw;
  }
  device_.check_whole();
  if (asks_for_faults_) throw_fault(found_);
}

/// Throws the fault that was copied, if there is one, and clears it on the device.
void CudaStream::throw_fault(const HostBuffer& found) {
  const cuda::Fault fault = found.as<cuda::Fault>()[0];
  if (fault.kind == cuda::Fault::kNone) return;
  cuda::check(cudaMemsetAsync(small_.as<std::byte>().address(), 0, sizeof(cuda::Fault), enter()),
              "cudaMemsetAsync", "a stream's fault");
  const auto position = static_cast<std::size_t>(fault.position());
  if (fault.kind == cuda::Fault::kOverflow) {
    throw std::invalid_argument(overflow_fault(position, fault.limit));
  }
  throw std::invalid_argument(fault.kind == cuda::Fault::kLabel
                                  ? label_fault(fault.value(), position, fault.limit)
                                  : row_fault(fault.value(), position, fault.limit));
}

class CudaStream::CudaMark final : public Mark {
 public:
  explicit CudaMark(CudaStream& stream)
      : stream_(stream), found_(allocate_pinned(Bytes(sizeof(cuda::Fault)))) {
    found_.as<cuda::Fault>()[0] = {};
    stream_.device_.enter();
    passed_ = cuda::make_event();
  }
  ~CudaMark() override {
    // The copy of a fault may be pending.
    (void)cudaEventSynchronize(passed_.get());
  }
  void record() override {
    stream_.copy_fault(found_);
    cuda::check(cudaEventRecord(passed_.get(), stream_.enter()), "cudaEventRecord");
  }
  bool passed() override {
    stream_.device_.enter();
    if (!cuda::has_passed(passed_)) return false;
    check_work();
    return true;
  }
  void finish() override {
    stream_.device_.enter();
    cuda::wait_for(passed_);
    check_work();
  }

 private:
  void check_work() {
    stream_.device_.check_whole();
    stream_.throw_fault(found_);
  }

  CudaStream& stream_;
  HostBuffer found_;
  cuda::EventHandle passed_;
};

std::unique_ptr<Mark> CudaStream::make_mark() {
  device_.enter();
  return std::make_unique<CudaMark>(*this);
}

std::byte* CudaStream::reserve(std::size_t bytes) {
  if (scratch_.size().value() >= bytes) return scratch_.as<std::byte>().address();
  TAUT_CHECK(recording_ == nullptr, "scratch memory grows before work is recorded");
  ++scratch_uses_;
  cuda::check(cudaStreamSynchronize(enter()), "cudaStreamSynchronize");
  if (has_recorded_) {
    outgrown_.push_back(std::move(scratch_));
  }
  scratch_ = DeviceBuffer();
  scratch_ = device_.allocate(Bytes(bytes), "the operations' workspace");
  return scratch_.as<std::byte>().address();
}

cudnnHandle_t CudaStream::cudnn() {
  if (!cudnn_) {
    device_.enter();
    cudnn_ = cuda::make_cudnn();
    cuda::check(cudnnSetStream(cudnn_.get(), stream_.get()), "cudnnSetStream");
  }
  return cudnn_.get();
}

cuda::Fault* CudaStream::fault() {
  asks_for_faults_ = true;
  return reinterpret_cast<cuda::Fault*>(small_.as<std::byte>().address());
}

const std::int64_t* CudaStream::clock_of_forward() const {
  return reinterpret_cast<const std::int64_t*>(small_.as<std::byte>().address() + kClockOffset);
}

const std::int64_t* CudaStream::clock_at(Clock clock) {
  auto* const place =
      reinterpret_cast<std::int64_t*>(small_.as<std::byte>().address() + kClockOffset);
  if (clock_ != clock) {
    TAUT_CHECK(recording_ == nullptr, "recorded work reads the clock that was set before it");
    cuda::set_number(enter(), place, clock.value());
    clock_ = clock;
  }
  return place;
}

bool CudaStream::begin_repeat(std::uint64_t key, Clock clock) {
  TAUT_CHECK(recording_ == nullptr, "one repeat ends before the next begins");
  (void)clock_at(clock);
  const auto known = repeats_.find(key);
  if (known == repeats_.end() && repeats_.size() >= kMaxRepeats) return true;
  Repeat& repeat = repeats_[key];
  if (repeat.graph) {
    cuda::check(cudaGraphLaunch(repeat.graph.get(), enter()), "cudaGraphLaunch");
    return false;
  }
  if (++repeat.passes <= kPassesBefore) return true;
  // Calls of other threads are not part of the recording, and are not restricted, except that they
  // must not wait for the device.
  std::shared_lock gate(cuda::captures());
  cuda::check(cudaStreamBeginCapture(enter(), cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
  gate_ = std::move(gate);
  recording_ = &repeat;
  return true;
}

void CudaStream::end_repeat() {
  if (recording_ == nullptr) return;
  Repeat& repeat = *recording_;
  recording_ = nullptr;
  {
    const auto gate = std::move(gate_);
    repeat.graph = end_capture();
  }
  cuda::check(cudaGraphLaunch(repeat.graph.get(), enter()), "cudaGraphLaunch");
}

void CudaStream::abandon_repeat() noexcept {
  if (recording_ == nullptr) return;
  recording_ = nullptr;
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(stream_.get(), &graph);
  gate_ = {};
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
}

cuda::GraphExecHandle CudaStream::end_capture() {
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamEndCapture(enter(), &graph), "cudaStreamEndCapture");
  const cuda::GraphHandle owner(graph);
  cudaGraphExec_t ready = nullptr;
  cuda::check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  has_recorded_ = true;
  return cuda::GraphExecHandle(ready);
}

}  // namespace taut
