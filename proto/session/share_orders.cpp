#include "proto/session/share_orders.hpp"

#include <algorithm>
#include <utility>

#include "proto/config/settle_balance.hpp"

namespace taut {

void ShareOrders::take(const pb::WorkerJob& job) {
  if (!job.definition().balance()) return;
  auto shares = to_batch_shares(job.definition(), job.slots(), job.shares());
  const std::scoped_lock lock(mutex_);
  if (job.revision() < revision_) return;
  revision_ = job.revision();
  held_ = job.hold_from() > 0 ? Clock(job.hold_from()) : Clock::never();
  if (shares && job.slot() < job.slots()) {
    slot_ = job.slot();
    shares_ = std::move(shares.value());
  } else {
    failure_ = shares ? "balance: a slot that the job does not have" : shares.error().message;
  }
}

Result<std::optional<BatchShares::Part>> ShareOrders::begin(Clock clock) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) return invalid(failure_);
  if (clock >= held_) return std::optional<BatchShares::Part>();
  begun_ = std::max(begun_, clock.next());
  return std::optional(shares_.part(clock, slot_));
}

float ShareOrders::weight(Clock clock) const {
  const std::scoped_lock lock(mutex_);
  return shares_.weight(clock, slot_);
}

void ShareOrders::report(pb::Progress& progress) const {
  const std::scoped_lock lock(mutex_);
  if (revision_ == 0 || !failure_.empty()) return;
  progress.set_begun(begun_.value());
  progress.set_share(shares_.part(std::max(begun_ - 1, Clock(0)), slot_).records);
}

}  // namespace taut
