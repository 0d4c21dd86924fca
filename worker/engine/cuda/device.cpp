#include "worker/engine/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "cuda/matmul.hpp"

namespace taut {

namespace {

/// The file that stores the chosen convolution algorithms, in TAUTLINE_CACHE or the user's cache
/// folder; empty if they are not stored.
std::filesystem::path choices_file(const std::string& device) {
  const auto variable = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  std::filesystem::path folder = variable("TAUTLINE_CACHE");
  if (folder == "off") return {};
  if (folder.empty()) {
    const std::string caches = variable("XDG_CACHE_HOME");
    const std::string home = variable("HOME");
    if (caches.empty() && home.empty()) return {};
    folder =
        caches.empty() ? std::filesystem::path(home) / ".cache" : std::filesystem::path(caches);
    folder /= "tautline";
  }
  std::string name = device;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return folder / fmt::format("convolutions-{}-cudnn{}.txt", name, cudnnGetVersion());
}

}  // namespace

CudaDevice::CudaDevice(int index, cuda::DeviceFacts facts)
    : index_(index),
      facts_(std::move(facts)),
      arena_(index, facts_.name),
      cublas_lt_((enter(), cuda::make_cublas_lt())),
      convolutions_(choices_file(facts_.name)) {}

void CudaDevice::enter() const {
  cuda::check(cudaSetDevice(index_), "cudaSetDevice");
}

void CudaDevice::fail_cut_off() const {
  enter();
  cuda::fail("an exchange between devices", facts_.name,
             "another device has failed, so what it left here is not used");
}

void CudaDevice::rely_on(const CudaDevice& other, cudaStream_t stream) {
  const std::scoped_lock lock(relied_mutex_);
  relied_.push_back({&other, stream});
  relies_ = true;
}

void CudaDevice::rely_on_none() noexcept {
  const std::scoped_lock lock(relied_mutex_);
  relied_.clear();
  relies_ = false;
}

/// A device keeps its failure, which precedes any value that could not be read from it.
void CudaDevice::check_relied() const {
  const std::scoped_lock lock(relied_mutex_);
  for (const Relied& one : relied_) {
    one.device->enter();
    const cudaError_t status = cudaStreamQuery(one.stream);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
    } else {
      cuda::check(status, "cudaStreamQuery", "a device that this one takes gradients from");
    }
  }
  enter();
}

DeviceBuffer CudaDevice::allocate(Bytes size, std::string_view what) {
  if (size.value() == 0) return {};
  enter();
  return {arena_.allocate(size, what), size,
          [](void* owner, void* address) noexcept {
            static_cast<cuda::DeviceArena*>(owner)->release(address);
          },
          &arena_};
}

DeviceMemoryUse CudaDevice::memory_use() const {
  enter();
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {arena_.taken(), Bytes(free)};
}

cuda::Numbers CudaDevice::numbers() const {
  switch (math_.precision) {
    case Precision::kFloat32:
      return cuda::Numbers::kFloat32;
    case Precision::kTf32:
      return cuda::Numbers::kTf32;
    case Precision::kBfloat16:
      return cuda::Numbers::kBfloat16;
    case Precision::kFloat16:
      return cuda::Numbers::kFloat16;
  }
  return cuda::Numbers::kFloat32;
}

cuda::Numbers CudaDevice::wide_numbers() const {
  return cuda::is_half(numbers()) ? cuda::Numbers::kTf32 : numbers();
}

cudnnHandle_t CudaDevice::cudnn() {
  const std::scoped_lock lock(mutex_);
  if (!cudnn_) {
    enter();
    cudnn_ = cuda::make_cudnn();
  }
  return cudnn_.get();
}

std::size_t CudaDevice::workspace_limit() const {
  constexpr std::uint64_t kMaxBytes = 1ULL << 30U;
  // The choice of an algorithm, and with it the bits, depends on this limit: the same for any
  // budget.
  constexpr std::uint64_t kDeterministic = 32ULL << 20U;
  constexpr std::uint64_t kShare = 8;  // of a budget
  if (math_.deterministic) return kDeterministic;
  const std::uint64_t budget = math_.budget.value();
  return budget == 0 ? kMaxBytes : std::min(kMaxBytes, budget / kShare);
}

std::size_t CudaDevice::product_workspace() const {
  return std::min(cuda::MatmulSpec::kMaxWorkspace, workspace_limit());
}

}  // namespace taut
