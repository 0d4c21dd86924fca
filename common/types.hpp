#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "common/strong_type.hpp"

namespace taut {

/// A job, unique for the lifetime of a coordinator's state.
using JobId = Id<struct JobTag, std::uint64_t>;
/// A member of one job. Never reused within the job: a worker that rejoins is a new member.
using WorkerId = Id<struct WorkerTag, std::uint32_t>;
/// One life of a worker; increases with every join. It fences a worker that was declared lost.
using Incarnation = Id<struct IncarnationTag, std::uint64_t>;
/// A parameter table, numbered from 0 in the order in which the model's forward pass first uses it.
using TableId = Id<struct TableTag, std::uint32_t>;
/// A slice of a table, numbered from 0 within its table.
using SliceId = Id<struct SliceTag, std::uint32_t>;
/// A shard, numbered from 0 over all servers.
using ShardId = Id<struct ShardTag, std::uint32_t>;
/// A follower of a job; drawn at random by the follower when it starts.
using FollowerId = Id<struct FollowerTag, std::uint64_t>;
/// Numbers the changes of a job's membership or mode, one by one.
using EpochId = Id<struct EpochTag, std::uint64_t>;

/// A worker's logical time: how many updates it has pushed. Counts from 0.
class Clock {
 public:
  constexpr Clock() = default;
  explicit constexpr Clock(std::int64_t value) : value_(value) {}

  [[nodiscard]] constexpr std::int64_t value() const { return value_; }
  [[nodiscard]] constexpr Clock next() const { return Clock(value_ + 1); }
  friend constexpr auto operator<=>(Clock, Clock) = default;
  friend constexpr std::int64_t operator-(Clock a, Clock b) { return a.value_ - b.value_; }
  friend constexpr Clock operator+(Clock a, std::int64_t steps) { return Clock(a.value_ + steps); }
  friend constexpr Clock operator-(Clock a, std::int64_t steps) { return Clock(a.value_ - steps); }
  friend std::ostream& operator<<(std::ostream& out, Clock clock) { return out << clock.value_; }

  /// A clock that no worker reaches.
  static constexpr Clock never() { return Clock(std::numeric_limits<std::int64_t>::max()); }

 private:
  std::int64_t value_ = 0;
};

/// How far a reader may be ahead of the slowest member: a number of clocks, or no bound (ASYNC).
class Slack {
 public:
  constexpr Slack() = default;
  explicit constexpr Slack(std::int64_t clocks) : clocks_(clocks) {}
  static constexpr Slack unbounded() { return Slack(std::numeric_limits<std::int64_t>::max()); }

  [[nodiscard]] constexpr bool is_unbounded() const { return *this == unbounded(); }
  [[nodiscard]] constexpr std::int64_t clocks() const { return clocks_; }
  friend constexpr auto operator<=>(Slack, Slack) = default;

  [[nodiscard]] std::string to_string() const {
    return is_unbounded() ? "async" : std::to_string(clocks_);
  }

 private:
  std::int64_t clocks_ = 0;
};

/// A number of bytes, as a type distinct from a number of elements.
using Bytes = Id<struct BytesTag, std::uint64_t>;

}  // namespace taut
