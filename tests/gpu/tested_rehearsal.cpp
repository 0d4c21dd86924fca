// The cases of tests/gpu with the CPU in the device's place: what is wrong with a case itself shows on
// every machine.
#include <memory>

#include "tests/gpu/tested_cuda.hpp"
#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

std::shared_ptr<Backend> cuda_device() {
  static const std::shared_ptr<Backend> device = cpu(2);
  return device;
}

std::shared_ptr<Backend> tested_backend(int threads) {
  return cpu(threads);
}

}  // namespace taut::test
