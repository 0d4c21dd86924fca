#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/fuzz/fuzz_target.hpp"

// A parser with a fault, for the driver's own test: two bytes of 0xff side by side end it.
std::vector<std::string> taut::fuzz::samples() {
  return {"one input", "another one"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* end = data + size;
  if (std::search_n(data, end, 2, std::uint8_t{0xff}) != end) std::abort();
  return 0;
}
