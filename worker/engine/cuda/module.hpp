#pragma once

#include <memory>
#include <span>

#include "common/result.hpp"
#include "worker/engine/backend.hpp"
#include "worker/engine/device_group.hpp"

// The interface of libtautline_cuda.so, which contains the CUDA backend and links CUDA, cuDNN and
// cuBLASLt. Programs load it when a CUDA device is requested, so the same program starts on a
// machine without them, and reports what is missing. Both sides must come from one build; the
// interface's name detects a module that is left over from another build.
namespace taut {

#ifndef TAUT_BUILD_STAMP
#define TAUT_BUILD_STAMP "unknown build"
#endif
inline constexpr const char* kCudaModuleFace = "tautline CUDA module 2, " TAUT_BUILD_STAMP;

}  // namespace taut

extern "C" {
/// kCudaModuleFace of the module's own build.
[[gnu::visibility("default")]] const char* taut_cuda_module_face();
/// Opens the device that the options name, as make_cuda_backend().
[[gnu::visibility("default")]] void taut_cuda_module_open(
    const taut::BackendOptions& options, taut::Result<std::unique_ptr<taut::Backend>>& into);
/// As make_cuda_group().
[[gnu::visibility("default")]] void taut_cuda_module_group(
    std::span<const taut::DeviceGroup::Member> members,
    taut::Result<std::unique_ptr<taut::DeviceGroup>>& into);
}
