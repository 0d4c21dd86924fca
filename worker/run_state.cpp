#include "worker/run_state.hpp"

#include <utility>

#include "common/log.hpp"

namespace taut::worker {

RunState::RunState(const pb::WorkerJob& job, std::span<const Replica> replicas, Client& client,
                   ParameterCache& cache, StateSaver& saver, Duration wait)
    : job_(job), client_(client), cache_(cache), saver_(saver), wait_(wait) {
  for (const Replica& replica : replicas) {
    streams_.push_back(replica.backend->make_stream());
    carriers_.push_back({replica.net.get(), replica.backend, streams_.back().get()});
  }
  carries_ = !replicas[0].net->carried_state().empty();
}

Result<void> RunState::restore(std::size_t tables) {
  TAUT_TRY(const bool restored, restore_state(job_, carriers_));
  if (job_.has_resume() && !restored && carries_) {
    log::info("the state that the net carries between batches starts from zeros");
  }
  if (!job_.has_resume()) return ok();
  TAUT_TRY(auto own, saved_own_state(job_));
  if (!own.empty() && !cache_.restore(std::move(own))) {
    log::info("the state of this worker's own training starts from zeros");
  }
  if (!client_.keeps_residuals()) return ok();
  TAUT_TRY(Residuals residuals, saved_residuals(job_, tables));
  if (!client_.restore(std::move(residuals))) {
    log::info("what compression had left out of earlier updates starts from zeros");
  }
  return ok();
}

void RunState::attach_to(Trainer::Options& options) {
  options.is_idle_before = [this](Clock clock) {
    is_due_ = saver_.is_due_at(clock);
    return is_due_ && carries_;
  };
  options.before_clock = [this](Clock first, Clock clock) {
    if (is_due_) copy_at(first, clock);
  };
}

void RunState::copy_at(Clock first, Clock clock) {
  auto residuals = client_.residuals(Clock(job_.start_clock()), clock, wait_);
  if (!residuals) {
    log::warn("no part of a checkpoint at clock {}: {}", clock.value(), residuals.error().message);
    return;
  }
  saver_.at_clock(first, clock, job_.slot(), carriers_,
                  {std::move(residuals.value()), cache_.own_state(clock)});
}

void RunState::use(std::span<const Replica> replicas) {
  for (std::size_t i = 0; i < replicas.size(); ++i) carriers_[i].net = replicas[i].net.get();
}

Result<void> RunState::finish(Clock reached) {
  TAUT_TRY(Residuals residuals, client_.residuals(Clock(job_.start_clock()), reached, wait_));
  saver_.at_end(reached, job_.slot(), carriers_, {std::move(residuals), cache_.own_state(reached)});
  return ok();
}

}  // namespace taut::worker
