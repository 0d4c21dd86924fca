#include "cuda/kernels/update.hpp"

#include <algorithm>
#include <array>

#include "common/check.hpp"
#include "common/math/update_rules.hpp"
#include "cuda/kernels/pack.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

struct Gradients {
  Scaled at[kMaxGradients];
  int count = 0;
};

Gradients gradients_of(std::span<const Scaled> list) {
  TAUT_CHECK(!list.empty() && list.size() <= kMaxGradients, "the gradients of one launch");
  Gradients gradients;
  for (const Scaled& one : list) gradients.at[gradients.count++] = one;
  return gradients;
}

/// A value on its way to the mean of `n` contributions. An infinite one, as of an attention mask,
/// stays as it is.
__device__ float moved(float value, float sum, float n, float share) {
  const float mean = sum / n;
  return mean == value && isinf(value) ? value : value + share * (mean - value);
}

/// The sum in the order given, as on the CPU: the first gradient sets it.
template <int kWidth>
__device__ Pack<kWidth> summed(const Gradients& gradients, std::int64_t i) {
  Pack<kWidth> sum = load<kWidth>(gradients.at[0].values, i);
  for (int k = 0; k < kWidth; ++k) sum.at[k] = gradients.at[0].factor * sum.at[k];
  for (int g = 1; g < gradients.count; ++g) {
    const Pack<kWidth> next = load<kWidth>(gradients.at[g].values, i);
    for (int k = 0; k < kWidth; ++k) sum.at[k] += gradients.at[g].factor * next.at[k];
  }
  return sum;
}

/// What an operation reads and writes in addition to the states that it reads.
enum class Pass : std::uint8_t {
  kWhole,   // gradients and values read, values and states written
  kGather,  // gradients read, states written
  kAlong,   // values read and written
};

/// Op is called as a rule: op(w, g, first, second) returns the new value and changes the states.
template <int kWidth, class Op>
__device__ void update_at(const Gradients& gradients, float scale, const UpdateArrays& arrays,
                          std::int64_t i, const Op& op) {
  Pack<kWidth> g{};
  Pack<kWidth> w{};
  Pack<kWidth> first{};
  Pack<kWidth> second{};
  if constexpr (Op::kPass != Pass::kAlong) g = summed<kWidth>(gradients, i);
  if constexpr (Op::kPass != Pass::kGather) w = load<kWidth>(arrays.values, i);
  if constexpr (Op::kStates > 0) first = load<kWidth>(arrays.first, i);
  if constexpr (Op::kStates > 1) second = load<kWidth>(arrays.second, i);
  for (int k = 0; k < kWidth; ++k) {
    w.at[k] = op(w.at[k], g.at[k] * scale, first.at[k], second.at[k]);
  }
  if constexpr (Op::kPass != Pass::kGather) store<kWidth>(w, arrays.values, i);
  if constexpr (Op::kPass != Pass::kAlong && Op::kStates > 0) store<kWidth>(first, arrays.first, i);
  if constexpr (Op::kPass != Pass::kAlong && Op::kStates > 1) {
    store<kWidth>(second, arrays.second, i);
  }
}

template <class Op>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Gradients gradients, float scale, UpdateArrays arrays, bool aligned, Op op) {
  const std::int64_t vectors = aligned ? arrays.count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
    update_at<4>(gradients, scale, arrays, i, op);
  }
  for (std::int64_t i = vectors * 4 + first_index(); i < arrays.count; i += index_step()) {
    update_at<1>(gradients, scale, arrays, i, op);
  }
}

template <class Op>
void launch_update(cudaStream_t stream, const char* name, const Gradients& gradients, float scale,
                   const UpdateArrays& arrays, const Op& op) {
  bool aligned = is_aligned(arrays.values) && is_aligned(arrays.first) && is_aligned(arrays.second);
  for (int g = 0; g < gradients.count; ++g) aligned = aligned && is_aligned(gradients.at[g].values);
  launch({stream, name, arrays.count, blocks_for((arrays.count + 3) / 4)}, update_kernel<Op>,
         gradients, scale, arrays, aligned, op);
}

/// The whole step of a rule.
template <class Rule>
struct Step {
  static constexpr Pass kPass = Pass::kWhole;
  static constexpr int kStates = Rule::kInfo.state_count;
  math::UpdateStep step;
  __device__ float operator()(float w, float g, float& first, float& second) const {
    return Rule{}(step, w, g, first, second);
  }
};

// The limit from CUDA 12.1 on; a launch with fewer bytes of parameters costs less.
constexpr std::size_t kMaxParameterBytes = 32764;
constexpr std::size_t kFewParameterBytes = 4096;

struct Listed {
  Scaled gradient;
  float scale;
  bool aligned;
  UpdateArrays arrays;
  math::UpdateStep step;
};
template <std::size_t kMax>
struct UpdateList {
  Listed at[kMax];
};
constexpr std::size_t kFewListed = 32;
static_assert(sizeof(UpdateList<kFewListed>) <= kFewParameterBytes);
static_assert(sizeof(UpdateList<kMaxListed>) <= kMaxParameterBytes);

/// One row of the grid per update.
template <class Rule, std::size_t kMax>
__global__ void __launch_bounds__(kThreads)
    update_list_kernel(const __grid_constant__ UpdateList<kMax> list) {
  const Listed& own = list.at[blockIdx.y];
  Gradients gradients;
  gradients.at[0] = own.gradient;
  gradients.count = 1;
  const Step<Rule> op{own.step};
  const std::int64_t vectors = own.aligned ? own.arrays.count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
    update_at<4>(gradients, own.scale, own.arrays, i, op);
  }
  for (std::int64_t i = vectors * 4 + first_index(); i < own.arrays.count; i += index_step()) {
    update_at<1>(gradients, own.scale, own.arrays, i, op);
  }
}

template <class Rule, std::size_t kMax>
void launch_list(cudaStream_t stream, std::span<const ListedUpdate> updates) {
  UpdateList<kMax> list{};
  std::int64_t longest = 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const ListedUpdate& one = updates[i];
    const UpdateArrays& arrays = one.arrays;
    const bool aligned = is_aligned(arrays.values) && is_aligned(arrays.first) &&
                         is_aligned(arrays.second) && is_aligned(one.gradient.values);
    list.at[i] = {one.gradient, one.scale, aligned, arrays, one.step};
    longest = std::max(longest, arrays.count);
    total += arrays.count;
  }
  if (longest == 0) return;
  const dim3 grid(blocks_for((longest + 3) / 4), static_cast<unsigned>(updates.size()));
  launch({stream, Rule::kInfo.name.data(), total, grid}, update_list_kernel<Rule, kMax>, list);
}

/// The two passes of a rule that is scaled by norms over the slice.
template <class Rule>
struct Gather {
  static constexpr Pass kPass = Pass::kGather;
  static constexpr int kStates = Rule::kInfo.state_count;
  math::UpdateStep step;
  __device__ float operator()(float w, float g, float& first, float& second) const {
    Rule::gather(step, g, first, second);
    return w;
  }
};
template <class Rule>
struct Along {
  static constexpr Pass kPass = Pass::kAlong;
  static constexpr int kStates = Rule::kInfo.state_count;
  math::UpdateStep step;
  const float* ratio;
  __device__ float operator()(float w, float, float& first, float& second) const {
    return Rule::along(step, *ratio, w, Rule::direction(step, w, first, second));
  }
};

/// First the states, then both norms, then the step that they scale.
template <class Rule>
void apply_by_slice(cudaStream_t stream, const math::UpdateStep& step, const Gradients& gradients,
                    float scale, const UpdateArrays& arrays, float* ratio, void* scratch) {
  launch_update(stream, Rule::kInfo.name.data(), gradients, scale, arrays, Gather<Rule>{step});
  const float* values = arrays.values;
  const float* first = arrays.first;
  const float* second = arrays.second;
  reduce(
      stream, Rule::kInfo.name.data(), all_of(arrays.count), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& of_values, double& of_direction) {
        const double w = values[i];
        const double d = Rule::direction(step, values[i], first[i], second[i]);
        of_values += w * w;
        of_direction += d * d;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *ratio = Rule::ratio(total.first, total.second);
      });
  launch_update(stream, Rule::kInfo.name.data(), gradients, scale, arrays,
                Along<Rule>{step, ratio});
}

// The ratio is stored before the scratch memory of the reduction.
constexpr std::size_t kRatioBytes = 256;

template <class Rule>
void apply_rule(cudaStream_t stream, const math::UpdateStep& step, const Gradients& gradients,
                float scale, const UpdateArrays& arrays, void* scratch) {
  if constexpr (math::kIsScaledBySlice<Rule>) {
    apply_by_slice<Rule>(stream, step, gradients, scale, arrays, static_cast<float*>(scratch),
                         static_cast<std::byte*>(scratch) + kRatioBytes);
  } else {
    launch_update(stream, Rule::kInfo.name.data(), gradients, scale, arrays, Step<Rule>{step});
  }
}

/// Tables of one launch, all with one share and number of contributions: for each its values, its
/// count of elements, and where its contributions are.
struct AverageList {
  float share;
  int contributions;
  std::uint64_t at[(kFewParameterBytes - 2 * sizeof(float)) / sizeof(std::uint64_t)];
};
static_assert(sizeof(AverageList) <= kFewParameterBytes);

/// One row of the grid per table. The arithmetic is apply_average's, with factors of 1.
__global__ void __launch_bounds__(kThreads)
    average_list_kernel(const __grid_constant__ AverageList list) {
  const std::uint64_t* const own =
      list.at + blockIdx.y * (static_cast<unsigned>(list.contributions) + 2);
  auto* const values = reinterpret_cast<float*>(own[0]);
  const auto count = static_cast<std::int64_t>(own[1]);
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    float sum = reinterpret_cast<const float*>(own[2])[i];
    for (int c = 1; c < list.contributions; ++c) {
      sum += reinterpret_cast<const float*>(own[2 + c])[i];
    }
    values[i] = moved(values[i], sum, static_cast<float>(list.contributions), list.share);
  }
}

/// Launches the first averages that fit into one launch; returns their number.
std::size_t launch_averages(cudaStream_t stream, std::span<const ListedAverage> averages) {
  const ListedAverage& first = averages.front();
  AverageList list{};
  list.share = first.share;
  list.contributions = static_cast<int>(first.contributions.size());
  const std::size_t each = first.contributions.size() + 2;
  std::size_t number = 0;
  std::int64_t longest = 0;
  std::int64_t total = 0;
  for (const ListedAverage& one : averages) {
    if (one.share != first.share || one.contributions.size() != first.contributions.size()) break;
    if ((number + 1) * each > std::size(list.at)) break;
    std::uint64_t* at = list.at + number++ * each;
    *at++ = reinterpret_cast<std::uintptr_t>(one.values);
    *at++ = static_cast<std::uint64_t>(one.count);
    for (const float* from : one.contributions) *at++ = reinterpret_cast<std::uintptr_t>(from);
    longest = std::max(longest, one.count);
    total += one.count;
  }
  if (longest > 0) {
    const dim3 grid(blocks_for(longest), static_cast<unsigned>(number));
    launch({stream, "apply_averages", total, grid}, average_list_kernel, list);
  }
  return number;
}

/// The gradients for one launch; if there are more, their partial sum.
Gradients few_of(cudaStream_t stream, math::RuleKind kind, std::span<const Scaled> list,
                 std::int64_t count, void* scratch) {
  if (list.size() <= kMaxGradients) return gradients_of(list);
  auto* sums =
      reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + update_scratch(kind, 1, count));
  weighted_sum(stream, list, sums, count);
  const Scaled all[]{{sums, 1.0F}};
  return gradients_of(all);
}

}  // namespace

std::size_t update_scratch(math::RuleKind kind, std::size_t gradients, std::int64_t count) {
  std::size_t norms = 0;
  math::with_rule(kind, [&](auto rule) {
    if (math::kIsScaledBySlice<decltype(rule)>) norms = kRatioBytes + reduce_scratch(all_of(count));
  });
  const std::size_t sums =
      gradients > kMaxGradients ? static_cast<std::size_t>(count) * sizeof(float) : 0;
  return (norms + 255) / 256 * 256 + sums;
}

void apply_update(cudaStream_t stream, math::RuleKind kind, const math::UpdateStep& step,
                  std::span<const Scaled> gradients, float scale, const UpdateArrays& arrays,
                  void* scratch) {
  if (arrays.count <= 0) return;
  const Gradients few = few_of(stream, kind, gradients, arrays.count, scratch);
  math::with_rule(kind, [&](auto rule) {
    apply_rule<decltype(rule)>(stream, step, few, scale, arrays, scratch);
  });
}

bool needs_scratch(math::RuleKind kind, std::size_t gradients) {
  return gradients > kMaxGradients || update_scratch(kind, gradients, 1) > 0;
}

void apply_updates(cudaStream_t stream, math::RuleKind kind,
                   std::span<const ListedUpdate> updates) {
  if (updates.empty()) return;
  math::with_rule(kind, [&](auto rule) {
    using Rule = decltype(rule);
    if constexpr (math::kIsScaledBySlice<Rule>) {
      TAUT_CHECK(false, "a rule with norms over the slice takes one table at a time");
    } else {
      for (std::size_t begin = 0; begin < updates.size(); begin += kMaxListed) {
        const auto part = updates.subspan(begin, std::min(kMaxListed, updates.size() - begin));
        if (part.size() <= kFewListed) {
          launch_list<Rule, kFewListed>(stream, part);
        } else {
          launch_list<Rule, kMaxListed>(stream, part);
        }
      }
    }
  });
}

void apply_average(cudaStream_t stream, std::span<const Scaled> contributions, float share,
                   float* values, std::int64_t count, void* scratch) {
  if (count <= 0) return;
  const Gradients all = few_of(stream, math::RuleKind::kSgd, contributions, count, scratch);
  const auto n = static_cast<float>(contributions.size());
  each(stream, "apply_average", count, [=] __device__(std::int64_t i) {
    values[i] = moved(values[i], summed<1>(all, i).at[0], n, share);
  });
}

void apply_averages(cudaStream_t stream, std::span<const ListedAverage> averages) {
  while (!averages.empty()) averages = averages.subspan(launch_averages(stream, averages));
}

bool can_be_listed(std::span<const Scaled> contributions) {
  return contributions.size() <= kMaxGradients &&
         std::ranges::all_of(contributions, [](const Scaled& one) { return one.factor == 1.0F; });
}

}  // namespace taut::cuda
