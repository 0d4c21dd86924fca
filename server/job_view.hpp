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
  /// The shard's copy number when it was chosen: images that it has since then are of use,
  /// whichever primary has sent them.
  std::uint64_t choice = 0;
  bool is_whole = false;  // when this was sent: it has an image of every slice
};

/// Which host serves a shard and which ones keep its images. A host is a shard thread of one of the
/// job's servers, by number.
struct ShardPlace {
  ShardId shard;
  ShardId host;
  std::uint64_t term = 0;  // rises with each change of the host; 0: the job is not replicated
  std::uint64_t copy = 0;  // rises with each change of the backups
  std::vector<ShardBackup> backups;

  /// The backup at a host; nullptr: it is none.
  [[nodiscard]] const ShardBackup* backup_at(ShardId host) const;
};

/// Everything a shard must know of a job, resolved from the coordinator's message. Immutable: a new
/// revision is a new view.
struct JobView {
  JobId job;
  std::uint64_t revision = 0;
  std::uint64_t submission = 0;  // its token
  std::string hash;
  std::uint64_t seed = 0;
  math::UpdateRule rule;
  bool sum = false;                  // add updates up instead of dividing by the members
  bool refuses_bad_updates = false;  // those that are not finite
  float min_weight = 1;              // of an update
  float max_weight = 1;
  bool is_seeded = false;         // the updates of clock 0 are initial values
  Clock first_step;               // of the rule
  std::vector<TableSpec> tables;  // that the job's text names; empty: its members name them
  Policies policies;
  Compression compression;
  Membership membership;
  std::uint32_t workers = 0;  // members at a clock at most; 0: those that it starts with
  std::map<WorkerId, std::string> names;  // of the members: a key is good for its own name
  Slack slack;                            // in clocks
  Clock hold_from = Clock::never();
  /// The bounded followers, and what each had confirmed when it joined.
  std::map<FollowerId, Clock> followers;
  std::map<FollowerId, std::string> follower_names;  // a key is good for its own name
  std::int64_t follower_slack = 0;                   // in clocks
  std::vector<ShardId> shards;
  std::vector<ShardPlace> places;  // of each shard; empty: a host serves the shard of its number
  std::uint32_t replication_interval = 0;   // rises of V between two images of a slice; 0: none
  Duration backup_limit = Duration::max();  // how far a backup may be behind
  bool logs_updates = false;                // an update counts once each backup has it
  std::vector<std::string> weights;         // files that tables may start from
  bool finished = false;
  CaptureOrder checkpoint;  // the newest

  /// Rises whenever a shard is taken over; 0: none can be.
  [[nodiscard]] std::uint64_t branch() const;
  /// Members at a clock at most.
  [[nodiscard]] std::uint64_t max_members() const {
    return std::max<std::uint64_t>(workers, membership.members().size());
  }
  /// Whether readers get only values of which each backup of the shard has an image. With backup
  /// workers or a buffer, which updates they hold follows from nothing else: a shard that is taken
  /// over may apply others together.
  [[nodiscard]] bool shows_kept() const;
  /// How many updates, of several clocks, are applied together; 0: those of a clock, or each alone.
  [[nodiscard]] std::uint32_t buffer() const;
  [[nodiscard]] bool has_buffer() const { return buffer() > 0; }
  /// Whether updates of this clock are initial values and no gradients.
  [[nodiscard]] bool is_seed(Clock clock) const { return is_seeded && clock == Clock(0); }

  /// The slack of a read at `clock`. Updates are applied in the order of clocks, so a read waits
  /// for every aggregate before it: only then are the reader's own writes, which follow them, in
  /// the values. Within BSP that is slack 0.
  [[nodiscard]] Slack slack_at(Clock clock) const { return slack_at(clock, slack); }
  /// Overload for a read under another slack.
  [[nodiscard]] Slack slack_at(Clock clock, Slack under) const {
    return std::min(under, Slack(clock - membership.aggregated_until(clock)));
  }
};

/// Errors    invalid: a solver or a state that cannot work
[[nodiscard]] Result<std::shared_ptr<const JobView>> make_job_view(const pb::ServerJob& job);

}  // namespace taut::server
