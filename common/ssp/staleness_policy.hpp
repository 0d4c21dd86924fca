#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/math/update_kernels.hpp"
#include "common/ssp/aggregation.hpp"
#include "common/ssp/membership.hpp"
#include "common/ssp/push_schedule.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

namespace taut {

/// The modes that a policy is for.
enum class PolicyMode : std::uint8_t {
  kAny,
  kBsp,       // clocks are aggregated: no update is late
  kArrivals,  // SSP and ASYNC: updates are applied on arrival
  kSsp,
};

/// A policy's name, which is its field of the job's `consistency`, and which policies it can be
/// combined with.
struct PolicyInfo {
  std::string_view name;
  PolicyMode mode = PolicyMode::kAny;
  bool is_alone = false;          // it cannot be combined with another policy
  bool is_scale = false;          // it only scales an update by how late it is
  bool goes_with_scales = false;  // even if is_alone
};

/// An update that is applied on arrival, and what its worker had read before it computed the
/// update.
struct LateUpdate {
  math::GradientView gradient;    // [n]; a policy scales or replaces it
  std::span<const float> values;  // [n] that the update is applied to
  std::span<const float> read;    // [n] that the worker read; empty unless the policies keep values
  double staleness = 0;           // applications since that read; one of all members counts as 1
  std::span<float> corrected;     // [n] buffer for a corrected gradient; empty if `read` is
  std::span<float> state;         // [n] the array that the policy keeps; empty if none
};

/// Determines the slack under which a job's reads at one shard are answered.
/// Thread    shard thread
class ReadSlack {
 public:
  virtual ~ReadSlack() = default;
  /// Adopts the members.
  virtual void set_members(const Membership& membership) = 0;
  /// A member's update of a clock was accepted, for any slice; only the clock's first call counts.
  virtual void note_push(WorkerId worker, Clock clock, TimePoint now) = 0;
  /// The slack of a member's read at `clock`, if the job's slack is `set`.
  [[nodiscard]] virtual Slack slack_of_read(WorkerId worker, Clock clock, Slack set) = 0;
  /// The largest slack that a member has now; nullopt if the slack does not adapt.
  [[nodiscard]] virtual std::optional<Slack> moving() const = 0;
};

/// What a job does about staleness, resolved from its file. Pure and constant: what a policy keeps
/// for a slice or a job is kept by the slice or the shard. By default each function answers
/// as for a policy that has no effect there.
class StalenessPolicy {
 public:
  virtual ~StalenessPolicy() = default;

  /// What a shard keeps for it, for each slice of a trained table.
  struct Keeps {
    bool reads = false;   // when each member last read the slice
    bool values = false;  // and what it read: up to one more slice of memory for each member
    bool state = false;   // one array, which checkpoints contain
  };
  [[nodiscard]] virtual Keeps keeps() const { return {}; }
  /// Weighs an update of a worker whose reads are kept.
  virtual void weigh(LateUpdate& /*update*/) const {}

  /// When a clock is over, and which updates make one application: how many of a clock's members
  /// need not be waited for, and which clocks members push at.
  [[nodiscard]] virtual std::uint32_t backup_workers() const { return 0; }
  [[nodiscard]] virtual PushSchedule schedule() const { return {}; }
  /// nullptr: according to the job's mode.
  [[nodiscard]] virtual std::unique_ptr<const AggregationPolicy> aggregation() const {
    return nullptr;
  }

  /// nullptr: every read has the job's slack.
  [[nodiscard]] virtual std::unique_ptr<ReadSlack> read_slack() const { return nullptr; }
};

}  // namespace taut
