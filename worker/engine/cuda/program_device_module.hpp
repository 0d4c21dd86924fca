#pragma once

#include <memory>

#include "common/result.hpp"
#include "worker/engine/program_device.hpp"

// The interface of libtautline_cuda_copies.so: copies for programs that do their own computing on a
// device. It contains CUDA's runtime but neither cuDNN nor cuBLASLt, of which such a program has
// its own copies. Both sides must come from one build.
namespace taut {

#ifndef TAUT_BUILD_STAMP
#define TAUT_BUILD_STAMP "unknown build"
#endif
inline constexpr const char* kProgramDeviceFace = "tautline copies 1, " TAUT_BUILD_STAMP;

}  // namespace taut

extern "C" {
/// kProgramDeviceFace of the module's own build.
[[gnu::visibility("default")]] const char* taut_program_device_face();
/// As open_program_device().
[[gnu::visibility("default")]] void taut_program_device_open(
    int index, taut::Result<std::unique_ptr<taut::ProgramDevice>>& into);
}
