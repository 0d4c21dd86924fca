#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/math/update_rule.hpp"
#include "cuda/kernels/elementwise.hpp"

// A shard's updates on the device: the arithmetic of common/math/update_rules.hpp, compiled without
// contraction, so that the bits are the CPU's.
namespace taut::cuda {

/// As math::apply_update.
/// gradients  at least one; if more than kMaxGradients, the first ones are summed beforehand
/// state      the rule's arrays; nullptr for those that it does not have
/// scratch    update_scratch() bytes
struct UpdateArrays {
  float* values = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  std::int64_t count = 0;
};
inline constexpr std::size_t kMaxGradients = 8;
void apply_update(cudaStream_t stream, math::RuleKind kind, const math::UpdateStep& step,
                  std::span<const Scaled> gradients, float scale, const UpdateArrays& arrays,
                  void* scratch);
[[nodiscard]] std::size_t update_scratch(math::RuleKind kind, std::size_t gradients,
                                         std::int64_t count);

/// Several updates by one rule, in one launch for each kMaxListed of them; none of them shares
/// memory with another.
/// REQUIRES  !needs_scratch(kind, 1)
struct ListedUpdate {
  math::UpdateStep step;
  Scaled gradient;  // the only one
  float scale = 1;
  UpdateArrays arrays;
};
inline constexpr std::size_t kMaxListed = 320;
void apply_updates(cudaStream_t stream, math::RuleKind kind, std::span<const ListedUpdate> updates);
/// Whether apply_update() takes scratch memory for any count of elements.
[[nodiscard]] bool needs_scratch(math::RuleKind kind, std::size_t gradients);

/// As math::apply_average.
/// scratch  update_scratch() bytes of SGD
void apply_average(cudaStream_t stream, std::span<const Scaled> contributions, float share,
                   float* values, std::int64_t count, void* scratch);

/// Several averages in few launches: one for 170 tables of one contribution each. None of them
/// shares memory with another.
/// REQUIRES  can_be_listed(), where each contribution has the factor 1
struct ListedAverage {
  std::vector<const float*> contributions;
  float share = 1;
  float* values = nullptr;
  std::int64_t count = 0;
};
void apply_averages(cudaStream_t stream, std::span<const ListedAverage> averages);
[[nodiscard]] bool can_be_listed(std::span<const Scaled> contributions);

}  // namespace taut::cuda
