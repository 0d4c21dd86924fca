#include "lab/losses/take_overs.hpp"

#include <algorithm>

namespace taut::sim {

void TakeOvers::look(const pb::StoredJob& job) {
  std::uint64_t terms = 0;
  for (const pb::StoredShard& shard : job.shards()) terms += shard.term();
  const std::int64_t lost = std::ranges::count_if(job.servers(), &pb::StoredServer::lost);
  // A planned move raises a term too.
  if (terms_ > 0 && terms > terms_ && lost > lost_) {
    ++counts_.all;
    counts_.joins += prepares_ == pb::EpochChange::JOIN ? 1 : 0;
    counts_.mode_changes += prepares_ == pb::EpochChange::MODE ? 1 : 0;
    counts_.checkpoints += has_checkpoint_ ? 1 : 0;
  }
  terms_ = terms;
  lost_ = lost;
  prepares_ = job.has_preparing() ? job.preparing().kind() : pb::EpochChange::NONE;
  has_checkpoint_ = job.has_checkpoint();
}

}  // namespace taut::sim
