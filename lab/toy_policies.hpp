#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "lab/random.hpp"
#include "lab/toy_job.hpp"
#include "proto/job.pb.h"

namespace taut::sim {

/// A staleness policy, as it is drawn for runs.
struct ToyPolicy {
  enum class Fit : std::uint8_t { kAny, kBsp, kArrivals, kSsp };

  std::string_view name;
  Fit fit = Fit::kAny;
  /// Sets it and its parameters; the job's slack fits already.
  void (*draw)(Random& random, ToyJob& job) = nullptr;
};

/// All policies; the first one is none.
[[nodiscard]] std::span<const ToyPolicy> toy_policies();
/// Errors    invalid: an unknown name
[[nodiscard]] Result<const ToyPolicy*> find_policy(std::string_view name);

/// An update that is applied on arrival, and what the contract knows about it.
struct ExpectedUpdate {
  std::vector<float>& update;
  std::span<const float> values;  // that it is applied to
  std::span<const float> read;    // that its worker read
  double staleness = 0;
  std::map<std::string_view, std::vector<float>>& states;  // of the slice, by policy; [n] each
};

/// Whether a job weighs updates, so that a slice's values do not count the updates they hold.
[[nodiscard]] bool weighs(const pb::Consistency& policies);
/// Weighs an update as in the policies' papers; shares no code with the shard.
void weigh(const pb::Consistency& policies, const ExpectedUpdate& late);

}  // namespace taut::sim
