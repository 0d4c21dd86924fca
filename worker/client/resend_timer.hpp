#pragma once

#include <algorithm>
#include <optional>

#include "common/time.hpp"

namespace taut {

/// How long to wait for an answer before a retransmission.
struct ResendPolicy {
  Duration first;  // before any round trip was measured
  Duration min;
  Duration max;

  ResendPolicy(Duration first_, Duration min_, Duration max_)
      : first(first_), min(min_), max(max_) {}
  /// A constant time.
  ResendPolicy(Duration fixed) : ResendPolicy(fixed, fixed, fixed) {}  // NOLINT: a plain duration
};

/// The time after which a message counts as lost: the measured round trip and four times its
/// deviation, doubled after each attempt. Later messages keep the longer time until one that was
/// sent only once is answered: otherwise, when a queue delays answers, all messages would be
/// retransmitted, and no round trip would ever be measured.
/// Source    Jacobson, "Congestion avoidance and control", SIGCOMM 1988; Karn and Partridge,
///           "Improving round-trip time estimates in reliable transport protocols", SIGCOMM 1987;
///           RFC 6298, 5.5 to 5.7
class ResendTimer {
 public:
  explicit ResendTimer(ResendPolicy policy) : policy_(policy) {}

  /// Records a round trip of a message that was sent only once: for a retransmitted one it is
  /// unknown which attempt was answered (Karn's rule). If an acknowledgement is lost, the push is
  /// confirmed only by the answer to a read that waited for other workers: such a sample is too
  /// long, so shorter ones count more.
  void measured(Duration round_trip) {
    doublings_ = 0;
    if (!mean_) {
      mean_ = round_trip;
      deviation_ = round_trip / 2;
      return;
    }
    const Duration error = round_trip - *mean_;
    deviation_ += (std::max(error, -error) - deviation_) / 4;
    *mean_ += error < Duration::zero() ? error / 2 : error / 8;
  }

  /// A request that is normally answered at once was not answered after its nth attempt.
  void expired(int attempts) { doublings_ = std::max(doublings_, attempts); }

  /// How long to wait after the nth attempt, from 1.
  [[nodiscard]] Duration timeout(int attempts) const {
    const Duration base = mean_ ? *mean_ + 4 * deviation_ : policy_.first;
    const int doublings = std::clamp(std::max(attempts - 1, doublings_), 0, 20);
    return std::min(std::max(base, policy_.min) * (1L << doublings), policy_.max);
  }

  /// How long to wait for the answer to a read after its nth attempt. It waits twice as long as an
  /// update, as its shard may have all updates of a clock to take before its answer, and then the
  /// answers to others; but no longer than an update where late ones have doubled the timeout
  /// already. A read may also wait there for other workers, and its answer be lost then: if the
  /// timeout grew with that, one worker's delay would delay all. A request is a small message, so
  /// the timeout stops growing soon.
  [[nodiscard]] Duration read_timeout(int attempts) const {
    constexpr int kMaxAttempts = 3;
    return timeout(std::min(attempts + 1, kMaxAttempts));
  }

  /// How long to wait after the nth attempt, from 1, if the answer was that it came too early:
  /// nothing was lost, and the round trips measured so far may be those of long messages.
  [[nodiscard]] Duration pause(int attempts) const {
    return std::min(policy_.min * (1L << std::clamp(attempts - 1, 0, 20)), timeout(attempts));
  }

 private:
  const ResendPolicy policy_;
  std::optional<Duration> mean_;
  Duration deviation_{0};
  int doublings_ = 0;  // since the last measurement
};

}  // namespace taut
