#include "proto/session/last_clocks.hpp"

#include <algorithm>

namespace taut {

void LastClocks::take(const pb::WorkerJob& job) {
  const std::scoped_lock lock(mutex_);
  if (job.revision() < revision_) return;
  revision_ = job.revision();
  held_ = job.saved_before() > 0 ? Clock(job.saved_before()) : Clock::never();
}

bool LastClocks::begin(Clock clock) {
  const std::scoped_lock lock(mutex_);
  if (clock >= held_) return false;
  begun_ = std::max(begun_, clock.next());
  return true;
}

void LastClocks::report(pb::Progress& progress) const {
  const std::scoped_lock lock(mutex_);
  progress.set_begun(std::max(progress.begun(), begun_.value()));
}

}  // namespace taut
