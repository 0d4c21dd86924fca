#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/log.hpp"
#include "cuda/nccl.hpp"
#include "worker/engine/cuda/module.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut {
namespace {

/// A worker's devices, which exchange through NCCL. A thread polls for a failed device: otherwise
/// the other devices, and the threads that wait for them, would wait for its part forever.
class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(std::unique_ptr<cuda::Nccl> nccl, std::vector<CudaStream*> streams)
      : nccl_(std::move(nccl)), streams_(std::move(streams)), watch_([this] { watch(); }) {}
  ~NcclGroup() override {
    // A communicator may be destroyed only when none of its work is pending; the watch ends work
    // that would never finish.
    bool is_whole = true;
    for (CudaStream* const stream : streams_) {
      try {
        stream->finish();
      } catch (const std::exception& fault) {
        log::debug("the exchange between devices was cut short: {}", fault.what());
        is_whole = false;
      }
    }
    // A failed device never completes its queued work.
    if (!is_whole) cut_short();
    {
      std::scoped_lock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    watch_.join();
  }

  std::string description() const override { return nccl_->description(); }

  void spread(DeviceSpan<const float> from, std::span<const DeviceSpan<float>> into) override {
    TAUT_CHECK(into.size() + 1 == streams_.size(), "one place for each member after the first");
    std::vector<cuda::Nccl::Part> parts(streams_.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      // NCCL does not support the same memory as the root's input and output.
      float* const place = i == 0 ? const_cast<float*>(from.address()) : into[i - 1].address();
      parts[i] = {
          .from = i == 0 ? from.address() : place, .into = place, .stream = streams_[i]->enter()};
    }
    nccl_->spread(parts, from.size());
  }

  void mean(std::span<const DeviceSpan<const float>> from, DeviceSpan<float> into) override {
    const cuda::Nccl::Exchange one = exchange_of(from, into);
    nccl_->mean(std::span(&one, 1));
  }
  void means(std::span<const Mean> all) override {
    std::vector<cuda::Nccl::Exchange> exchanges;
    for (const Mean& one : all) exchanges.push_back(exchange_of(one.parts, one.into));
    nccl_->mean(exchanges);
  }

 private:
  cuda::Nccl::Exchange exchange_of(std::span<const DeviceSpan<const float>> from,
                                   DeviceSpan<float> into) const {
    TAUT_CHECK(from.size() == streams_.size(), "one part for each member");
    std::vector<cuda::Nccl::Part> parts(streams_.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = {.from = from[i].address(),
                  .into = i == 0 ? into.address() : nullptr,
                  .stream = streams_[i]->enter()};
    }
    return {std::move(parts), into.size()};
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBetweenLooks, [this] { return over_; })) {
      if (!nccl_->has_failed() && !has_failed_device()) continue;
      cut_short();
      return;
    }
  }

  /// Aborts the pending exchanges. Work queued after them would read garbage as their results, so
  /// its waits are made to fail first.
  void cut_short() {
    for (CudaStream* const stream : streams_) stream->device().cut_off();
    nccl_->give_up();
  }

  /// A fault in a device's kernels makes every later call on it fail.
  bool has_failed_device() const {
    for (CudaStream* const stream : streams_) {
      if (cudaSetDevice(stream->device().index()) != cudaSuccess) return true;
      const cudaError_t status = cudaStreamQuery(stream->get());
      if (status != cudaSuccess) (void)cudaGetLastError();
      if (status != cudaSuccess && status != cudaErrorNotReady) return true;
    }
    return false;
  }

  static constexpr std::chrono::milliseconds kBetweenLooks{200};

  const std::unique_ptr<cuda::Nccl> nccl_;
  const std::vector<CudaStream*> streams_;
  std::mutex mutex_;  // guards over_
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watch_;  // last: it uses the members above
};

Result<std::unique_ptr<DeviceGroup>> open_group(std::span<const DeviceGroup::Member> members) {
  std::vector<CudaStream*> streams;
  std::vector<int> devices;
  for (const DeviceGroup::Member& member : members) {
    auto* const stream = dynamic_cast<CudaStream*>(member.stream);
    if (stream == nullptr) {
      return make_error(ErrorCode::kUnavailable, "one of them is not a CUDA device by itself");
    }
    const int device = stream->device().index();
    if (std::ranges::find(devices, device) != devices.end()) {
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("CUDA device {} is named more than once", device));
    }
    streams.push_back(stream);
    devices.push_back(device);
  }
  TAUT_TRY(auto nccl, cuda::Nccl::open(devices));
  return std::unique_ptr<DeviceGroup>(
      std::make_unique<NcclGroup>(std::move(nccl), std::move(streams)));
}

}  // namespace
}  // namespace taut

extern "C" void taut_cuda_module_group(std::span<const taut::DeviceGroup::Member> members,
                                       taut::Result<std::unique_ptr<taut::DeviceGroup>>& into) {
  into = taut::open_group(members);
}
