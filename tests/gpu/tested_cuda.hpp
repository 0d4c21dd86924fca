#pragma once

#include <memory>

#include "common/result.hpp"
#include "worker/engine/backend.hpp"

namespace taut::test {

/// The machine's first CUDA device, opened once in a process. Errors: why there is none
[[nodiscard]] const Result<std::shared_ptr<Backend>>& open_cuda();

/// As open_cuda(), for tests that run only where the device exists.
[[nodiscard]] std::shared_ptr<Backend> cuda_device();

}  // namespace taut::test
