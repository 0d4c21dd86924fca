#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/math/update_rule.hpp"
#include "common/result.hpp"
#include "common/ssp/compression.hpp"
#include "common/ssp/membership.hpp"
#include "common/ssp/policies.hpp"
#include "common/ssp/table.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"
#include "server/replication/slice_image.hpp"

namespace taut::server {

/// A host that keeps a shard's images.
struct ShardBackup {
  ShardId host;
  std::string address;
  /// The shard's copy number when this backup was chosen: images that it has received since then
  /// are usable, whichever primary sent them.
  std::uint64_t choice = 0;
  bool is_whole = false;  // whether it had an image of every slice when this was sent
};

/// Which host serves a shard and which ones keep its images. A host is a shard thread of one of the
/// job's servers, by number.
struct ShardPlace {
  ShardId shard;
  ShardId host;
  std::uint64_t term = 0;  // rises with each change of the host; 0: the job is not replicated
  std::uint64_t copy = 0;  // rises with each change of the backups
  std::vector<ShardBackup> backups;

  /// The backup on `host`; nullptr if `host` is not one.
  [[nodiscard]] const ShardBackup* backup_at(ShardId host) const;
};

/// Everything a shard must know about a job, resolved from the coordinator's message. Immutable: a
/// new revision is a new view.
struct JobView {
  JobId job;
  std::uint64_t revision = 0;
  std::uint64_t submission = 0;  // its token
  std::string hash;
  std::uint64_t seed = 0;
  math::UpdateRule rule;
  bool sum = false;                  // sum the updates instead of dividing by the members
  bool refuses_bad_updates = false;  // those that are not finite
  float min_weight = 1;              // of an update
  float max_weight = 1;
  bool is_seeded = false;         // the updates of clock 0 are initial values
  Clock first_step;               // of the rule
  std::vector<TableSpec> tables;  // named by the job's text; if empty, its members name them
  Policies policies;
  Compression compression;
  Membership membership;
  std::uint32_t workers = 0;  // the most members at one clock; 0: those that it starts with
  std::map<WorkerId, std::string> names;  // of the members; a key is valid only for its own name
  Slack slack;                            // in clocks
  Clock hold_from = Clock::never();
  /// The bounded followers, and the clock that each had confirmed when it joined.
  std::map<FollowerId, Clock> followers;
  std::map<FollowerId, std::string> follower_names;  // a key is valid only for its own name
  std::int64_t follower_slack = 0;                   // in clocks
  std::vector<ShardId> shards;
  std::vector<ShardPlace> places;           // of each shard; if empty, host N serves shard N
  std::uint32_t replication_interval = 0;   // increments of V between a slice's images; 0: none
  Duration backup_limit = Duration::max();  // how far behind a backup may be
  bool logs_updates = false;                // an update counts only once every backup has it
  std::vector<std::string> weights;         // files that tables may start from
  bool finished = false;
  CaptureOrder checkpoint;  // the newest

  /// Increases with every take-over of a shard; 0 if none can be taken over.
  [[nodiscard]] std::uint64_t branch() const;
  /// The most members at one clock.
  [[nodiscard]] std::uint64_t max_members() const {
    return std::max<std::uint64_t>(workers, membership.members().size());
  }
  /// Whether readers get only values of which every backup of the shard has an image. With backup
  /// workers or a buffer, nothing else determines which updates the values contain: after a
  /// take-over, the shard may combine other updates.
  [[nodiscard]] bool shows_kept() const;
  /// How many updates, possibly of different clocks, are applied together; 0: the updates of one
  /// clock, or each update on its own.
  [[nodiscard]] std::uint32_t buffer() const;
  [[nodiscard]] bool has_buffer() const { return buffer() > 0; }
  /// Whether updates of this clock are initial values rather than gradients.
  [[nodiscard]] bool is_seed(Clock clock) const { return is_seeded && clock == Clock(0); }

  /// The slack of a read at `clock`. Updates are applied in clock order, so a read waits for every
  /// aggregate before it: only then do the values contain the reader's own writes, which come after
  /// those. Under BSP that is slack 0.
  [[nodiscard]] Slack slack_at(Clock clock) const { return slack_at(clock, slack); }
  /// Overload for a read under another slack.
  [[nodiscard]] Slack slack_at(Clock clock, Slack under) const {
    return std::min(under, Slack(clock - membership.aggregated_until(clock)));
  }
};

/// Errors    invalid: a solver or a state that cannot work
[[nodiscard]] Result<std::shared_ptr<const JobView>> make_job_view(const pb::ServerJob& job);

}  // namespace taut::server
