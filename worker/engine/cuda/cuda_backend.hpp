#pragma once

#include <memory>
#include <span>

#include "common/result.hpp"
#include "worker/engine/backend.hpp"
#include "worker/engine/device_group.hpp"

namespace taut {

/// Opens a CUDA device. CMake chooses the file that defines it: without a toolkit, a stub.
/// Errors    unavailable: not built in, or no such device; the message says why in one line
[[nodiscard]] Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options);

/// A group that exchanges with NCCL. Defined in the same file as make_cuda_backend().
/// Errors    unavailable: a member is not a CUDA device or shares one with another, or NCCL is not
///           found; the message says which
[[nodiscard]] Result<std::unique_ptr<DeviceGroup>> make_cuda_group(
    std::span<const DeviceGroup::Member> members);

}  // namespace taut
