// What a shard answers to readers that follow a job without being members.
#include <algorithm>
#include <utility>

#include "proto/config/job_state.hpp"
#include "server/shard.hpp"

namespace taut::server {

DataMessage Shard::describe(JobId id, const pb::Describe& request) const {
  pb::Description description;
  description.set_round(request.round());
  description.set_lowest(Clock::never().value());
  const auto found = jobs_.find(id);
  const bool is_open = found != jobs_.end() && !found->second.tables.empty();
  // A host that serves no shard reports no versions, and readers do not wait for it.
  description.set_waits(!is_open || found->second.settling);
  if (is_open) {
    const JobState& job = found->second;
    for (const auto& [index, slice] : job.slices) {
      if (!slice->is_written()) continue;
      description.set_lowest(std::min(description.lowest(), slice->complete_until().value()));
      description.set_highest(std::max(description.highest(), slice->version().value()));
    }
    if (request.tables()) {
      for (const TableSpec& table : job.tables) *description.add_tables() = to_wire(table);
    }
  }
  const std::uint64_t branch = found == jobs_.end() ? 0 : found->second.view->branch();
  return {id, {}, Incarnation(branch), std::move(description)};
}

std::vector<Outgoing> Shard::take_confirmation(PeerId from, JobId id, const pb::Confirm& confirm) {
  pb::ConfirmReply reply;
  reply.set_follower(confirm.follower());
  std::vector<Outgoing> answers(1);
  Outbox out(id);
  const auto found = jobs_.find(id);
  if (found != jobs_.end()) {
    JobState& job = found->second;
    const Clock before = job.bound.limit();
    const Clock version(confirm.version());
    // An impossible version confirms nothing.
    const bool is_sound = version >= Clock() && version <= kMaxClock;
    if (const auto confirmed =
            job.bound.confirm(FollowerId(confirm.follower()), is_sound ? version : Clock())) {
      reply.set_known(true);
      reply.set_version(confirmed->value());
    }
    if (const Clock limit = job.bound.limit(); limit > before) {
      std::vector<Answer> released;
      for (auto& [index, slice] : job.slices) {
        released.clear();
        const QueueCount count(queues_, *slice);
        slice->allow_reads(limit, released);
        add(released, job, *slice, out);
      }
    }
  }
  answers[0] = {from, DataMessage{id, {}, {}, std::move(reply)}};
  for (Outgoing& released : out.take()) answers.push_back(std::move(released));
  return answers;
}

}  // namespace taut::server
