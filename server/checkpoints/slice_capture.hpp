#pragma once

#include <cstdint>
#include <functional>

#include "common/ssp/slice_clock.hpp"
#include "common/types.hpp"
#include "server/job_view.hpp"
#include "server/replication/slice_image.hpp"

namespace taut::server {

/// The job's newest checkpoint order for one slice, and the resulting image.
/// Thread    shard thread
class SliceCapture {
 public:
  enum class State : std::uint8_t {
    kNone,    // no order, or the image was taken
    kDue,     // V has not reached the order's clock, or updates below V must be repeated
    kReady,   // the image waits to be taken
    kMissed,  // V had passed the clock when the order arrived, or there was no memory
  };

  /// Takes a newer order, which replaces an older one and drops its image.
  void take_order(const CaptureOrder& order);
  /// Makes the image if it is due.
  /// is_written  false: the slice is never pushed, so its V does not move
  /// clock       of the slice
  /// image       makes the image; may throw std::bad_alloc
  void capture_if_due(const JobView& job, bool is_written, const SliceClock& clock,
                      const std::function<SliceImage()>& image);

  [[nodiscard]] State state() const { return state_; }
  /// REQUIRES: kReady.
  [[nodiscard]] SliceImage take_image();

 private:
  State state_ = State::kNone;
  std::uint64_t order_ = 0;  // the newest
  SliceImage image_;
};

}  // namespace taut::server
