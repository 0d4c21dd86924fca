#pragma once

#include <cstdint>

namespace taut::sim {

/// Random numbers that are the same on every machine for the same seed; std distributions are not.
/// Source    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix(state_);
  }
  /// From 0 to n - 1. REQUIRES: n > 0.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  /// From `low` to `high`, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool chance(double probability) {
    return probability > 0 && static_cast<double>(next() >> 11U) * 0x1p-53 < probability;
  }

  /// A bijection of 64 bits that looks random.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace taut::sim
