#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What a fuzzer calls with each input. Returns 0; a broken promise aborts.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace taut::fuzz {

/// Inputs that the target takes, for the seeded driver to change.
[[nodiscard]] std::vector<std::string> samples();

}  // namespace taut::fuzz
