#include <cstdio>
#include <cstring>

#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch_runner.hpp"

namespace {

constexpr int kSkipped = 77;  // what CTest takes for "skipped"

}  // namespace

int main(int argc, char** argv) {
  // Listing needs no device.
  const bool lists = argc > 1 && std::strncmp(argv[1], "--list", 6) == 0;
  const auto& device = taut::test::open_cuda();
  if (!device && !lists) {
    std::printf("skipped: %s\n", device.error().message.c_str());
    return kSkipped;
  }
  return taut::test::run_cases(argc, argv);
}
