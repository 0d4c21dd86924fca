#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/ssp/batch_shares.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// A member's shares of the batch in a job that balances, according to its newest state, and which
/// clocks it has begun. A clock that is held is begun only under a later state, so that the share
/// of a clock that has begun never changes.
/// Thread    any
class ShareOrders {
 public:
  /// Adopts the shares of a state; one of an older revision changes nothing.
  void take(const pb::WorkerJob& job);

  /// This worker's part of the batches of a clock that it begins; nullopt if the clock is held.
  /// Errors    invalid: the shares do not make a batch
  [[nodiscard]] Result<std::optional<BatchShares::Part>> begin(Clock clock);

  /// The weight of this worker's update of a clock that it has begun.
  [[nodiscard]] float weight(Clock clock) const;

  /// Adds to a report which clocks it has begun, and its share.
  /// REQUIRES: the report's revision was read before.
  void report(pb::Progress& progress) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t revision_ = 0;  // 0: it has taken no state of a job that balances
  std::uint32_t slot_ = 0;
  BatchShares shares_;
  Clock held_ = Clock::never();
  Clock begun_;  // all clocks before it
  std::string failure_;
};

}  // namespace taut
