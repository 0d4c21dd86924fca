// What a shard reports of itself: to the coordinator after a change, and for its metrics.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "server/shard.hpp"

namespace taut::server {

std::uint64_t Shard::value_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [index, slice] : job.slices) {
      const std::uint64_t rows = slice->rows() == nullptr ? 1 : slice->rows()->rows();
      bytes += rows * slice->place().count * sizeof(float);
    }
  }
  return bytes;
}

std::optional<Shard::MovingSlack> Shard::moving_slack() const {
  for (const auto& [id, job] : jobs_) {
    if (const auto slack = job.slack->moving()) return MovingSlack{id, *slack};
  }
  return std::nullopt;
}

std::optional<JobPositions> Shard::positions() const {
  if (jobs_.empty()) return std::nullopt;
  const auto& [id, job] = *jobs_.rbegin();
  JobPositions all{id, Clock::never(), {}};
  const Slack slack = job.slack->moving().value_or(job.view->slack);
  for (const auto& [index, slice] : job.slices) {
    if (!slice->is_written()) continue;
    all.version = std::min(all.version, slice->version());
    for (const Member& member : job.view->membership.members()) {
      if (member.fenced || member.leave != Clock::never()) continue;
      const SliceState::Position here = slice->position(member.worker, slack);
      const auto [entry, added] = all.members.try_emplace(member.worker, here);
      if (!added && here.clock < entry->second.clock) entry->second = here;
    }
  }
  if (all.members.empty()) return std::nullopt;
  return all;
}

ShardReport Shard::report(JobId id) const {
  ShardReport report;
  report.job = id;
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return report;
  const JobState& job = found->second;
  report.revision = job.view->revision;
  report.settling = job.settling;
  report.error = job.error;
  report.bad_updates = job.bad_updates;
  for (const auto& [shard, copy] : job.copies) {
    report.copies.push_back({shard, copy.choice(), copy.is_complete()});
    if (copy.problem().empty()) continue;
    report.problems.push_back({shard, copy.term(), copy.choice(), copy.problem()});
  }
  for (const ImageSender::Problem& one : job.images.problems()) report.problems.push_back(one);
  for (const auto& [index, slice] : job.slices) {
    report.max_done = std::max(report.max_done, slice->gate().highest_due());
  }
  // A host that serves no shard holds no worker back.
  const bool may_hold_back = job.tables.empty() && !job.served.empty();
  if (!may_hold_back) report.min_version = Clock::never();
  for (const auto& [index, slice] : job.slices) {
    if (!slice->is_written()) continue;
    report.min_version = std::min(report.min_version, slice->version());
    // Members that are forgotten by now may have raised it.
    report.max_done = std::max(report.max_done, slice->version());
  }
  for (const Member& member : job.view->membership.members()) {
    // No worker pushes before the tables are open everywhere.
    Clock lowest = may_hold_back ? member.join : Clock::never();
    for (const auto& [index, slice] : job.slices) {
      const Clock done =
          std::max(slice->done(member.worker), job.images.logged(index, member.worker));
      lowest = std::min(lowest, done);
      if (done > member.join) report.max_done = std::max(report.max_done, done);
    }
    if (member.fenced) report.fenced.emplace(member.worker, lowest);
  }
  report.min_version = std::min(report.min_version, lowest_unsafe(job));
  return report;
}

}  // namespace taut::server
