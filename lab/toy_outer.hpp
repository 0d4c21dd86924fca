#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "lab/random.hpp"
#include "lab/toy_job.hpp"
#include "proto/job.pb.h"

namespace taut::sim {

/// Draws periodic averaging with an outer rule, and its parameters.
void draw_outer(Random& random, ToyJob& job);

/// How many updates make a step; 0: the job has no buffer.
[[nodiscard]] std::uint32_t buffer_of(const pb::Consistency& policies);

/// One step of a slice along the gradient that its updates make together: by the job's outer rule,
/// as in the papers, or by SGD with rate 1. Shares no code with the shard.
/// steps   the number of earlier steps of the slice
/// states  of the slice, by name; [n] each
void step(const pb::Consistency& policies, std::int64_t steps, std::span<const float> gradient,
          std::span<float> values, std::map<std::string_view, std::vector<float>>& states);

}  // namespace taut::sim
