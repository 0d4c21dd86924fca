#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz_target.hpp"

// With libFuzzer the target's samples are where it starts: TAUTLINE_FUZZ_SAMPLES names the folder
// of inputs that they are written to.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* folder = std::getenv("TAUTLINE_FUZZ_SAMPLES");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const std::string& sample : taut::fuzz::samples()) {
    const std::string name = "sample" + std::to_string(number++);
    std::ofstream(std::filesystem::path(folder) / name, std::ios::binary) << sample;
  }
  return 0;
}
