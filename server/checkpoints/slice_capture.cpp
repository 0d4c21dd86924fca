#include "server/checkpoints/slice_capture.hpp"

#include <new>
#include <utility>

#include "common/check.hpp"

namespace taut::server {

void SliceCapture::take_order(const CaptureOrder& order) {
  if (order.number == order_) return;
  order_ = order.number;
  image_ = {};
  state_ = order_ == 0 ? State::kNone : State::kDue;
}

/// While clocks are aggregated, V stays at the order's clock until all updates of that clock have
/// arrived, and the values are exactly those below it; if nothing is pushed at that clock, it stays
/// at the last one before. On arrival the values contain later updates too, and the image's `done`
/// shows which. Updates that members repeat after a take-over are part of the image, too.
void SliceCapture::capture_if_due(const JobView& job, bool is_written, const SliceClock& clock,
                                  const std::function<SliceImage()>& image) {
  if (state_ != State::kDue) return;
  const Clock ordered = job.checkpoint.clock;
  if (is_written) {
    if (clock.complete_until() < ordered || clock.is_owed()) return;
    if (clock.version() > ordered && job.membership.mode_at(ordered) == ApplyMode::kAggregate) {
      state_ = State::kMissed;
      return;
    }
  }
  try {
    image_ = image();
    state_ = State::kReady;
  } catch (const std::bad_alloc&) {
    // Training continues; a later order may find memory.
    image_ = {};
    state_ = State::kMissed;
  }
}

SliceImage SliceCapture::take_image() {
  TAUT_CHECK(state_ == State::kReady, "an image that is not ready");
  state_ = State::kNone;
  return std::exchange(image_, {});
}

}  // namespace taut::server
