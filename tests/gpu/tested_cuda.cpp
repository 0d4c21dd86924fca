#include "tests/gpu/tested_cuda.hpp"

#include <utility>

#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

const Result<std::shared_ptr<Backend>>& open_cuda() {
  const auto open = []() -> Result<std::shared_ptr<Backend>> {
    TAUT_TRY(BackendChoice choice, make_backend({.device = DeviceKind::kCuda}));
    return std::shared_ptr<Backend>(std::move(choice.backend));
  };
  // Never destroyed: CUDA's libraries may end before a static of ours.
  static const auto* const device = new Result<std::shared_ptr<Backend>>(open());
  return *device;
}

std::shared_ptr<Backend> cuda_device() {
  return open_cuda().value();
}

std::shared_ptr<Backend> tested_backend(int /*threads*/) {
  return cuda_device();
}

}  // namespace taut::test
