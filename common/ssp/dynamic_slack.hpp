#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/ssp/membership.hpp"
#include "common/ssp/policies.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

namespace taut {

/// Two pushes of a worker, one after the other.
struct PushTimes {
  TimePoint latest;
  Duration interval{0};
};

/// How many further clocks, from 0 to `most`, the fastest worker does before it waits, so that the
/// end of the last one is nearest to a push of the slowest: both are taken to go on as they did between
/// their last two pushes. Of equal ones the fewest.
/// Source    Zhao et al., "Dynamic Stale Synchronous Parallel Distributed Training for Deep Learning",
///           ICDCS 2019, algorithm 2
[[nodiscard]] std::int64_t extra_clocks(PushTimes fastest, PushTimes slowest, std::int64_t most);

/// The slack of a job's reads at one shard, within a range: DSSP. Everybody has the least one. When
/// the fastest worker would have to wait under it, it is given as many extra clocks as
/// extra_clocks() says, and never so many that it could get further ahead than the largest slack
/// allows. Pure: time comes with the pushes.
/// Source    the same, algorithm 1
/// Thread    shard thread
class DynamicSlack {
 public:
  explicit DynamicSlack(SlackRange range) : range_(range) {}

  /// Takes over who is a member. One that was lost, or is past its leave clock, counts no more.
  void set_members(const Membership& membership);
  /// A member's update of a clock has come, of whichever slice first.
  void note_push(WorkerId worker, Clock clock, TimePoint now);
  /// Under which slack a member's read at `clock` is answered. Between the bounds of the range.
  [[nodiscard]] Slack slack_of_read(WorkerId worker, Clock clock);
  /// The largest slack that a member has now.
  [[nodiscard]] Slack in_force() const;

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

}  // namespace taut
