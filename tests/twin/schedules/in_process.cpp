// The CUDA backend linked into the program, in the place of the module that
// worker/engine/cuda/loader.cpp loads: so a source of it can be replaced by one with a planted bug.
#include "worker/engine/cuda/cuda_backend.hpp"
#include "worker/engine/cuda/module.hpp"

namespace taut {

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  Result<std::unique_ptr<Backend>> backend = make_error(ErrorCode::kUnavailable, "not opened");
  taut_cuda_module_open(options, backend);
  return backend;
}

Result<std::unique_ptr<DeviceGroup>> make_cuda_group(std::span<const DeviceGroup::Member> members) {
  Result<std::unique_ptr<DeviceGroup>> group = make_error(ErrorCode::kUnavailable, "not made");
  taut_cuda_module_group(members, group);
  return group;
}

}  // namespace taut
