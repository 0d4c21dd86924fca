#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

std::shared_ptr<Backend> tested_backend(int threads) {
  return cpu(threads);
}

}  // namespace taut::test
