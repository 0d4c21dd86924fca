#include "server/job_view.hpp"

#include "common/ssp/policies/averaging.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/config/settle_averaging.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"

namespace taut::server {
namespace {

void add_shards(const pb::ServerJob& job, JobView& view) {
  for (const pb::ShardInfo& shard : job.shards()) {
    view.shards.emplace_back(shard.shard());
    ShardPlace& place = view.places.emplace_back();
    place.shard = ShardId(shard.shard());
    place.host = ShardId(shard.has_host() ? shard.host() : shard.shard());
    place.term = shard.term();
    place.copy = shard.copy();
    for (const pb::ShardBackup& backup : shard.backups()) {
      place.backups.push_back(
          {ShardId(backup.host()), backup.address(), backup.choice(), backup.is_whole()});
    }
  }
}

void add_checkpoint(const pb::ServerJob& job, JobView& view) {
  const pb::CheckpointOrder& order = job.checkpoint();
  view.checkpoint.number = order.number();
  view.checkpoint.clock = Clock(order.clock());
  view.checkpoint.folder = order.folder();
  view.checkpoint.is_incremental = job.definition().checkpoint().incremental();
  view.checkpoint.base = order.base();
  view.checkpoint.data = order.coding().data();
  view.checkpoint.parity = order.coding().parity();
  view.checkpoint.block_bytes = order.coding().block_bytes();
  view.checkpoint.token = order.token();
  for (const pb::PartHolder& holder : order.holders()) {
    view.checkpoint.holders.push_back({holder.name(), holder.address()});
  }
}

}  // namespace

std::uint64_t JobView::branch() const {
  std::uint64_t branch = 0;
  for (const ShardPlace& place : places) branch += place.term;
  return branch;
}

std::uint32_t JobView::buffer() const {
  const auto* averaging = policies.find<Averaging>();
  return averaging == nullptr ? 0 : averaging->buffer();
}

bool JobView::shows_kept() const {
  return replication_interval > 0 && (policies.backup_workers() > 0 || has_buffer());
}

const ShardBackup* ShardPlace::backup_at(ShardId host) const {
  const auto found = std::ranges::find(backups, host, &ShardBackup::host);
  return found == backups.end() ? nullptr : &*found;
}

Result<std::shared_ptr<const JobView>> make_job_view(const pb::ServerJob& job) {
  auto view = std::make_shared<JobView>();
  view->job = JobId(job.job());
  view->revision = job.revision();
  view->finished = job.finished();
  // The message that a job is over contains nothing else.
  if (view->finished) return std::shared_ptr<const JobView>(std::move(view));
  view->submission = job.submission();
  view->hash = job_hash(job.definition());
  view->seed = job.definition().seed();
  TAUT_TRY(view->rule, to_shard_rule(job.definition()));
  TAUT_TRY(view->policies, to_policies(job.definition()));
  TAUT_TRY(view->compression, to_compression(job.definition()));
  view->sum = job.definition().reduction() == pb::Job::SUM;
  view->refuses_bad_updates = job.definition().on_bad_update() != pb::Job::ACCEPT;
  if (job.definition().balance()) {
    // From one record of the largest batch to a batch of all workers.
    view->min_weight = 0x1p-31F;
    view->max_weight = static_cast<float>(job.definition().workers());
  }
  view->is_seeded = is_seeded(job.definition());
  view->first_step = first_step(job.definition());
  TAUT_TRY(view->tables, to_tables(job.definition()));
  view->slack = Slack(job.slack());
  if (const auto* averaging = view->policies.find<Averaging>()) {
    view->sum = averaging->exchange() == Exchange::kElastic;
    // A slack of periodic averaging counts meetings.
    const bool counts_clocks = view->sum || view->slack.is_unbounded();
    if (!counts_clocks) view->slack = Slack(job.slack() * averaging->schedule().interval);
  }
  TAUT_TRY(view->membership, to_membership(job));
  view->workers = job.definition().workers();
  for (const pb::Member& member : job.members()) {
    view->names.emplace(WorkerId(member.worker()), member.name());
  }
  view->hold_from = Clock(job.hold_from());
  for (const pb::BoundedFollower& follower : job.followers()) {
    const FollowerId id(follower.follower());
    view->followers.emplace(id, follower.from());
    view->follower_names.emplace(id, follower.name());
  }
  view->follower_slack = job.follower_slack();
  view->weights.assign(job.definition().weights().begin(), job.definition().weights().end());
  view->replication_interval = job.replication_interval();
  view->logs_updates = job.logs_updates();
  if (job.backup_limit_s() > 0) view->backup_limit = from_seconds(job.backup_limit_s());
  add_shards(job, *view);
  add_checkpoint(job, *view);
  return std::shared_ptr<const JobView>(std::move(view));
}

}  // namespace taut::server
