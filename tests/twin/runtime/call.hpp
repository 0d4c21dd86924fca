#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "tests/twin/runtime/lock.hpp"

// What each call of the runtime starts and ends with. REQUIRES, of all: the lock is held.
namespace taut::twin {

/// Counts the call, and makes it fail where the test's order or the device's sticky error says so.
/// refused  what kRefused becomes
[[nodiscard]] std::optional<cudaError_t> enter(const char* call, int device,
                                               cudaError_t refused = cudaErrorNotPermitted);
/// The status, noted as the thread's last error where it is one.
cudaError_t answer(cudaError_t status);
/// The thread's last error.
[[nodiscard]] cudaError_t last_error();
void clear_last_error();

}  // namespace taut::twin
