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

/// Whether a job is BSP: with slack 0 it is, whatever the mode is called, unless the slack is
/// dynamic.
[[nodiscard]] bool is_bsp(const pb::Consistency& consistency);

/// The first field of a job's periodic averaging that is out of its range, that its outer type does
/// not read, or that cannot be combined with the rest of the job; nullopt if there is none.
[[nodiscard]] std::optional<FieldMisfit> misfit_of_averaging(const pb::Job& job);

/// Why the solver's lr_reference_batch cannot be used if each worker applies the rule itself;
/// completes a sentence about what makes workers do so. nullopt if it can be used, or is not given.
[[nodiscard]] std::optional<std::string> misfit_of_reference_batch(const pb::Job& job);

/// REQUIRES: the job has periodic averaging.
/// Errors    invalid: the misfit
[[nodiscard]] Result<Averaging::Settings> to_periodic_averaging(const pb::Job& job);

/// The rule that the shards apply: the solver's, without what workers do in their place
/// (workers_apply_momentum()); or, if workers train by the solver's rule themselves, the rule for
/// the distances that they push: the outer rule, or else plain SGD with rate 1.
/// Errors    as to_update_rule(), and the misfit
[[nodiscard]] Result<math::UpdateRule> to_shard_rule(const pb::Job& job);

}  // namespace taut
