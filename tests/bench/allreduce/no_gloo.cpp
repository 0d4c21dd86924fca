#include "tests/bench/allreduce/way.hpp"

namespace taut::bench {

std::unique_ptr<Way> gloo_way(const Place& /*place*/) {
  return nullptr;
}

}  // namespace taut::bench
