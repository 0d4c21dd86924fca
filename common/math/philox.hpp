#pragma once

#include <array>
#include <cstdint>

#include "common/math/host_device.hpp"

namespace taut::math {

/// Four random 32-bit words, a pure function of (key, stream, counter): any element of a random
/// table can be made separately, in any order, by any process.
/// Source    Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, Philox4x32-10
struct Philox {
  std::uint32_t words[4];

  TAUT_HD static constexpr Philox at(std::uint64_t key, std::uint64_t stream,
                                     std::uint64_t counter) {
    std::uint32_t k0 = static_cast<std::uint32_t>(key);
    std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32U);
    std::uint32_t c0 = static_cast<std::uint32_t>(counter);
    std::uint32_t c1 = static_cast<std::uint32_t>(counter >> 32U);
    std::uint32_t c2 = static_cast<std::uint32_t>(stream);
    std::uint32_t c3 = static_cast<std::uint32_t>(stream >> 32U);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
      const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32U) ^ c1 ^ k0;
      const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32U) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return Philox{{c0, c1, c2, c3}};
  }
};

/// Uniform in [0, 1), on 24 bits.
TAUT_HD constexpr float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8U) * 0x1.0p-24F;
}

/// A hash of a name for use as a stream number.
/// Source    Fowler, Noll, Vo: FNV-1a, 64 bits
constexpr std::uint64_t name_stream(const char* text, std::uint64_t size) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::uint64_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace taut::math
