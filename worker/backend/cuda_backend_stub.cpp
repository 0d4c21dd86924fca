#include "worker/backend/cuda_backend.hpp"

namespace taut {

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions&) {
  return make_error(ErrorCode::kUnavailable,
                    "this build has no CUDA backend; use device CPU or AUTO");
}

}  // namespace taut
