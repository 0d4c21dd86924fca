#pragma once

#include <cstddef>
#include <cstdint>

#include "common/time_source.hpp"
#include "common/types.hpp"

namespace taut::worker {

/// The time of a training loop. On a machine, computing takes real time; in the lab it takes the
/// time that a model gives, which passes in the calls below; they may run other workers meanwhile.
/// Thread    the compute thread
class Pace : public TimeSource {
 public:
  enum class Pass : std::uint8_t { kForward, kBackward };

  /// A layer of the training net was computed at a clock. What it reads does not change, and what
  /// it writes is not read, until this returns.
  virtual void computed(Pass /*pass*/, std::size_t /*layer*/, Clock /*clock*/) {}
  /// From now on batches have `share` times the records of an equal share.
  virtual void set_share(double /*share*/) {}
  /// A test net was computed over a batch of `records` records.
  virtual void tested(std::int64_t /*records*/) {}
};

/// The machine's own pace: real time.
[[nodiscard]] inline Pace& machine_pace() {
  static Pace pace;
  return pace;
}

}  // namespace taut::worker
