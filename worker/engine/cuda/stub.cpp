#include "worker/engine/cuda/cuda_backend.hpp"

namespace taut {

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions&) {
  return make_error(ErrorCode::kUnavailable,
                    "this build has no CUDA backend; use device CPU or AUTO");
}

Result<std::unique_ptr<DeviceGroup>> make_cuda_group(std::span<const DeviceGroup::Member>) {
  return make_error(ErrorCode::kUnavailable, "this build has no CUDA backend");
}

}  // namespace taut
