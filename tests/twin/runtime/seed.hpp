#pragma once

#include <cstdint>
#include <string_view>

namespace taut::twin {

/// TAUTLINE_TWIN_SEED; 1 where it is not set.
[[nodiscard]] std::uint64_t seed();
/// Another one from now on: all sequences start again.
void set_seed(std::uint64_t seed);

/// What libraries answer. Where TAUTLINE_TWIN_LIBRARIES is set, it is its seed: two schedules then
/// meet the same libraries.
[[nodiscard]] std::uint64_t library_number(std::string_view question, std::uint64_t bound);

/// When queued work runs, which the seed decides.
enum class Lateness : std::uint8_t {
  kLatest,  // only before what waits for it
  kAnyTime,
  kAtOnce,  // as soon as its order allows
};
[[nodiscard]] Lateness lateness();

}  // namespace taut::twin
