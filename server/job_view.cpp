#include "server/job_view.hpp"

#include "common/ssp/policies/averaging.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"

namespace taut::server {

Result<std::shared_ptr<const JobView>> make_job_view(const pb::ServerJob& job) {
  auto view = std::make_shared<JobView>();
  view->job = JobId(job.job());
  view->revision = job.revision();
  view->finished = job.finished();
  // The message that a job is over contains nothing else.
  if (view->finished) return std::shared_ptr<const JobView>(std::move(view));
  view->hash = job_hash(job.definition());
  view->seed = job.definition().seed();
  TAUT_TRY(view->rule, to_update_rule(job.definition()));
  TAUT_TRY(view->policies, to_policies(job.definition()));
  TAUT_TRY(view->compression, to_compression(job.definition()));
  view->sum = job.definition().reduction() == pb::Job::SUM;
  view->refuses_bad_updates = job.definition().on_bad_update() != pb::Job::ACCEPT;
  view->is_seeded = job.definition().external_members();
  if (const auto* averaging = view->policies.find<Averaging>()) {
    // Pushes of averaging workers are added unchanged: their own rules have done the descent.
    view->rule = math::UpdateRule();
    view->rule.rate.base = 1;
    view->sum = averaging->exchange() == Exchange::kElastic;
  }
  TAUT_TRY(view->membership, to_membership(job));
  for (const pb::Member& member : job.members()) {
    view->names.emplace(WorkerId(member.worker()), member.name());
  }
  view->slack = Slack(job.slack());
  view->hold_from = Clock(job.hold_from());
  view->weights.assign(job.definition().weights().begin(), job.definition().weights().end());
  view->replication_interval = job.replication_interval();
  if (job.backup_limit_s() > 0) view->backup_limit = from_seconds(job.backup_limit_s());
  for (const pb::ShardInfo& shard : job.shards()) {
    view->shards.emplace_back(shard.shard());
    ShardPlace& place = view->places.emplace_back();
    place.shard = ShardId(shard.shard());
    place.host = ShardId(shard.has_host() ? shard.host() : shard.shard());
    place.term = shard.term();
    if (shard.has_backup()) place.backup = ShardId(shard.backup());
    place.backup_address = shard.backup_address();
    place.copy = shard.copy();
  }
  const pb::CheckpointOrder& order = job.checkpoint();
  view->checkpoint = {order.number(), Clock(order.clock()), order.folder()};
  return std::shared_ptr<const JobView>(std::move(view));
}

}  // namespace taut::server
