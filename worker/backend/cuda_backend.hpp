#pragma once

#include <memory>

#include "common/result.hpp"
#include "worker/backend/backend.hpp"

namespace taut {

/// Opens a CUDA device. Which file defines it is CMake's choice: without a toolkit, a stub.
/// Errors    unavailable: not built in, or no such device; says why in one line
[[nodiscard]] Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options);

}  // namespace taut
