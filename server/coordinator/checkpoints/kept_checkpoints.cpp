#include "server/coordinator/checkpoints/kept_checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/coordinator/checkpoints/left_parts.hpp"

namespace taut {
namespace {

/// Removes the kept checkpoints for which `is_unkept` is true; they leave the list immediately.
template <class Predicate>
void remove_kept(JobRecord& job, CheckpointTasks& tasks, Notes& notes, const std::string& why,
                 Predicate is_unkept) {
  CheckpointTask task;
  task.kind = CheckpointTask::Kind::kRemove;
  task.job = JobId(job.stored().job());
  task.token = job.stored().token();
  auto& kept = *job.change().mutable_checkpoints();
  for (int i = 0; i < kept.size();) {
    if (!is_unkept(kept[i])) {
      ++i;
      continue;
    }
    if (!why.empty()) {
      notes.add(JobId(job.stored().job()),
                fmt::format("the checkpoint at clock {} is removed: {}", kept[i].clock(), why));
    }
    task.unkept.push_back({kept[i].folder(), kept[i].order()});
    leave_parts(job, kept[i].folder(), kept[i].order());
    kept.DeleteSubrange(i, 1);
  }
  tasks.push_back(std::move(task));
}

/// Whether a checkpoint's parameters are good as far as this job can tell.
bool has_proved(const JobRecord& job, std::int64_t clock) {
  const pb::StoredJob& stored = job.stored();
  if (stored.definition().on_divergence() == pb::Job::CONTINUE) return true;
  const pb::JobState state = stored.closing() ? stored.end_state() : stored.state();
  if (state != pb::RUNNING) return state != pb::FAILED;
  bool any = false;
  for (const pb::StoredMember& member : stored.members()) {
    if (member.lost()) continue;
    // The evaluator tests at a clock before training it, and at the end before it finishes.
    if (!member.finished() && member.progress().clock() <= clock) return false;
    any = true;
  }
  return any;
}

}  // namespace

void remove_old(JobRecord& job, CheckpointTasks& tasks, Notes& notes) {
  const auto& kept = job.stored().checkpoints();
  const std::uint32_t keep = job.stored().definition().checkpoint().keep();
  if (keep == 0 || static_cast<std::uint32_t>(kept.size()) <= keep) return;
  const int first = kept.size() - static_cast<int>(keep);
  const bool has_good =
      std::any_of(kept.begin() + first, kept.end(),
                  [&](const pb::KeptCheckpoint& one) { return has_proved(job, one.clock()); });
  if (!has_good) return;
  remove_kept(job, tasks, notes, "",
              [first, seen = 0](const auto& /*kept*/) mutable { return seen++ < first; });
}

void remove_diverged(JobRecord& job, CheckpointTasks& tasks, Notes& notes) {
  if (!job.stored().diverged()) return;
  std::int64_t from = Clock::never().value();
  for (const pb::StoredMember& member : job.stored().members()) {
    if (member.progress().diverged()) from = std::min(from, member.progress().clock());
  }
  const auto is_bad = [from](const pb::KeptCheckpoint& one) { return one.clock() >= from; };
  if (std::ranges::none_of(job.stored().checkpoints(), is_bad)) return;
  remove_kept(job, tasks, notes,
              fmt::format("the training had diverged by clock {}, as was seen afterwards", from),
              is_bad);
}

}  // namespace taut
