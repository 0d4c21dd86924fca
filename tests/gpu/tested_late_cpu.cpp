// The cases of tests/gpu with a CPU in the device's place that has its own memory and works
// late: what is wrong with a case itself shows on every machine.
#include <memory>

#include "tests/gpu/tested_cuda.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

std::shared_ptr<Backend> cuda_device() {
  static const std::shared_ptr<Backend> host = cpu(2);
  static const auto device = std::make_shared<LateBackend>(*host, LateBackend::Options{});
  return device;
}

std::shared_ptr<Backend> tested_backend(int threads) {
  return cpu(threads);
}

}  // namespace taut::test
