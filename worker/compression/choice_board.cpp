#include "worker/compression/choice_board.hpp"

#include "proto/config/settle_compression.hpp"

namespace taut::worker {

void ChoiceBoard::post(const pb::WorkerJob& job) {
  if (chooses_compression(job.definition())) return;
  const std::scoped_lock lock(mutex_);
  if (!chosen_) chosen_ = job.definition().compression();
}

std::optional<pb::Compression> ChoiceBoard::chosen() const {
  const std::scoped_lock lock(mutex_);
  return chosen_;
}

void ChoiceBoard::set_measured(const pb::CompressionCosts& measured) {
  const std::scoped_lock lock(mutex_);
  measured_ = measured;
}

void ChoiceBoard::report(pb::Progress& progress) const {
  const std::scoped_lock lock(mutex_);
  if (measured_ && !chosen_) *progress.mutable_measured() = *measured_;
}

}  // namespace taut::worker
