#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "common/ssp/membership.hpp"
#include "common/ssp/staleness_policy.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

namespace taut {

/// The bounds of a dynamic slack.
struct SlackRange {
  Slack min;
  Slack max;
};

/// A worker's last push, and the interval since the one before.
struct PushTimes {
  TimePoint latest;
  Duration interval{0};
};

/// How many further clocks, from 0 to `max_extra`, the fastest worker runs before it waits, so that
/// the end of the last one is nearest to a push of the slowest: both are assumed to continue as
/// they did between their last two pushes. Ties go to the fewest clocks.
/// Source    Zhao et al., "Dynamic Stale Synchronous Parallel Distributed Training for Deep
///           Learning", ICDCS 2019, algorithm 2
[[nodiscard]] std::int64_t extra_clocks(PushTimes fastest, PushTimes slowest,
                                        std::int64_t max_extra);

/// The slack of a job's reads at one shard, within a range: DSSP. Every worker has the smallest
/// one. When the fastest worker would have to wait under it, it is given as many extra clocks as
/// extra_clocks() returns, but never gets further ahead than the largest slack allows. Pure: the
/// caller passes the time with each push.
/// Source    Zhao et al., as above, algorithm 1
/// Thread    shard thread
class DynamicSlack final : public ReadSlack {
 public:
  explicit DynamicSlack(SlackRange range) : range_(range) {}

  /// A member that was lost, or is past its leave clock, no longer counts.
  void set_members(const Membership& membership) override;
  void note_push(WorkerId worker, Clock clock, TimePoint now) override;
  /// Between the bounds of the range, whatever the job's slack is.
  [[nodiscard]] Slack slack_of_read(WorkerId worker, Clock clock, Slack set) override;
  [[nodiscard]] std::optional<Slack> moving() const override;

 private:
  struct Grant {
    Clock until;  // reads up to this clock
    Slack slack;
  };
  struct Progress {
    Clock done;
    std::optional<TimePoint> before;
    std::optional<TimePoint> latest;
    std::optional<Grant> grant;
    bool counts = true;
  };
  [[nodiscard]] std::optional<PushTimes> times_of(const Progress& progress) const;
  [[nodiscard]] const Progress* slowest() const;

  SlackRange range_;
  std::map<WorkerId, Progress> members_;
};

/// SSP with a slack that adapts on its own.
class DynamicSlackPolicy final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kInfo{.name = "dynamic_slack", .mode = PolicyMode::kSsp};

  explicit DynamicSlackPolicy(SlackRange range) : range_(range) {}
  [[nodiscard]] SlackRange range() const { return range_; }
  [[nodiscard]] std::unique_ptr<ReadSlack> read_slack() const override {
    return std::make_unique<DynamicSlack>(range_);
  }

 private:
  SlackRange range_;
};

}  // namespace taut
