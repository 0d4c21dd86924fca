#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/math/update_rule.hpp"
#include "common/result.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "proto/config/text_places.hpp"
#include "proto/job.pb.h"

namespace taut {

/// What is wrong with a field of a job.
struct FieldMisfit {
  std::vector<PlacedText::Step> where;
  std::string what;  // with its path
};

/// The most clocks between two meetings or exchanges.
inline constexpr std::uint32_t kMaxInterval = 1'000'000;

/// Whether a job is BSP: slack 0 is, whatever the mode is called, unless the slack moves.
[[nodiscard]] bool is_bsp(const pb::Consistency& consistency);

/// The first of a job's periodic averaging that is out of its range, that its outer type does not
/// read or that cannot be combined with the rest of the job; nullopt: all of it fits, or there is
/// none.
[[nodiscard]] std::optional<FieldMisfit> misfit_of_averaging(const pb::Job& job);

/// Why the solver's lr_reference_batch cannot be used where each worker applies the rule itself; it
/// completes a sentence about what has it do so. nullopt: it can, or is not given.
[[nodiscard]] std::optional<std::string> misfit_of_reference_batch(const pb::Job& job);

/// REQUIRES: the job has it.
/// Errors    invalid: the misfit
[[nodiscard]] Result<Averaging::Settings> to_periodic_averaging(const pb::Job& job);

/// The rule that the shards apply: the solver's, without what workers do in their place
/// (workers_apply_momentum()); or where workers train by it, what becomes of the distances that
/// they push: the outer rule, or else plain SGD with rate 1.
/// Errors    as to_update_rule(), and the misfit
[[nodiscard]] Result<math::UpdateRule> to_shard_rule(const pb::Job& job);

}  // namespace taut
