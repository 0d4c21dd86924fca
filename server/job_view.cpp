#include "server/job_view.hpp"

#include "proto/job_state.hpp"
#include "proto/policies.hpp"

namespace taut::server {

Result<std::shared_ptr<const JobView>> make_job_view(const pb::ServerJob& job) {
  auto view = std::make_shared<JobView>();
  view->job = JobId(job.job());
  view->revision = job.revision();
  view->finished = job.finished();
  // Word that a job is over carries nothing else.
  if (view->finished) return std::shared_ptr<const JobView>(std::move(view));
  view->hash = job_hash(job.definition());
  view->seed = job.definition().seed();
  TAUT_TRY(view->rule, to_update_rule(job.definition().solver_param()));
  TAUT_TRY(view->policies, to_policies(job.definition()));
  view->sum = job.definition().reduction() == pb::Job::SUM;
  TAUT_TRY(view->membership, to_membership(job));
  view->slack = Slack(job.slack());
  view->hold_from = Clock(job.hold_from());
  view->weights.assign(job.definition().weights().begin(), job.definition().weights().end());
  for (const pb::ShardInfo& shard : job.shards()) view->shards.emplace_back(shard.shard());
  return std::shared_ptr<const JobView>(std::move(view));
}

}  // namespace taut::server
