#include "cuda/kernels/update.hpp"

#include <array>

#include "common/check.hpp"
#include "common/math/update_arithmetic.hpp"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

struct Gradients {
  Scaled at[kMostGradients];
  int count = 0;
};

Gradients gradients_of(std::span<const Scaled> list) {
  TAUT_CHECK(!list.empty() && list.size() <= kMostGradients, "the gradients of one launch");
  Gradients gradients;
  for (const Scaled& one : list) gradients.at[gradients.count++] = one;
  return gradients;
}

/// Four neighbours, or one where arrays are not aligned or end.
template <int kWidth>
struct Pack {
  float at[kWidth];
};

template <int kWidth>
__device__ Pack<kWidth> load(const float* from, std::int64_t i) {
  Pack<kWidth> pack;
  if constexpr (kWidth == 4) {
    const float4 x = reinterpret_cast<const float4*>(from)[i];
    pack.at[0] = x.x;
    pack.at[1] = x.y;
    pack.at[2] = x.z;
    pack.at[3] = x.w;
  } else {
    pack.at[0] = from[i];
  }
  return pack;
}

template <int kWidth>
__device__ void store(const Pack<kWidth>& pack, float* to, std::int64_t i) {
  if constexpr (kWidth == 4) {
    reinterpret_cast<float4*>(to)[i] = make_float4(pack.at[0], pack.at[1], pack.at[2], pack.at[3]);
  } else {
    to[i] = pack.at[0];
  }
}

/// The sum in the order given, as the CPU's: the first one sets it.
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

/// Rule gives value(g, w, first, second): the new value, and changes the states that it has.
template <int kWidth, int kStates, class Rule>
__device__ void update_at(const Gradients& gradients, float scale, const UpdateArrays& arrays,
                          std::int64_t i, const Rule& rule) {
  const Pack<kWidth> g = summed<kWidth>(gradients, i);
  Pack<kWidth> w = load<kWidth>(arrays.values, i);
  Pack<kWidth> first{};
  Pack<kWidth> second{};
  if constexpr (kStates > 0) first = load<kWidth>(arrays.first, i);
  if constexpr (kStates > 1) second = load<kWidth>(arrays.second, i);
  for (int k = 0; k < kWidth; ++k) {
    w.at[k] = rule(w.at[k], g.at[k] * scale, first.at[k], second.at[k]);
  }
  store<kWidth>(w, arrays.values, i);
  if constexpr (kStates > 0) store<kWidth>(first, arrays.first, i);
  if constexpr (kStates > 1) store<kWidth>(second, arrays.second, i);
}

template <int kStates, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Gradients gradients, float scale, UpdateArrays arrays, bool aligned, Rule rule) {
  const std::int64_t vectors = aligned ? arrays.count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
    update_at<4, kStates>(gradients, scale, arrays, i, rule);
  }
  for (std::int64_t i = vectors * 4 + first_index(); i < arrays.count; i += index_step()) {
    update_at<1, kStates>(gradients, scale, arrays, i, rule);
  }
}

template <int kStates, class Rule>
void launch(cudaStream_t stream, const char* name, const Gradients& gradients, float scale,
            const UpdateArrays& arrays, const Rule& rule) {
  bool aligned = is_aligned(arrays.values) && is_aligned(arrays.first) && is_aligned(arrays.second);
  for (int g = 0; g < gradients.count; ++g) aligned = aligned && is_aligned(gradients.at[g].values);
  update_kernel<kStates><<<blocks_for((arrays.count + 3) / 4), kThreads, 0, stream>>>(
      gradients, scale, arrays, aligned, rule);
  check_launch(name, arrays.count);
}

/// First both moments, then both norms, then the step that they scale.
void apply_lamb(cudaStream_t stream, const math::UpdateStep& step, const Gradients& gradients,
                float scale, const UpdateArrays& arrays, float* trust, void* scratch) {
  launch<2>(stream, "LAMB moments", gradients, scale, arrays,
            [step] __device__(float w, float g, float& first, float& second) {
              math::gather_moments(step, g, first, second);
              return w;
            });
  const float* values = arrays.values;
  const float* first = arrays.first;
  const float* second = arrays.second;
  reduce(
      stream, "LAMB norms", all_of(arrays.count), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& of_values, double& of_direction) {
        const double w = values[i];
        const double d = math::decoupled_direction(step, values[i], first[i], second[i]);
        of_values += w * w;
        of_direction += d * d;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *trust = math::trust_ratio(total.first, total.second);
      });
  launch<2>(stream, "LAMB", gradients, scale, arrays,
            [step, trust] __device__(float w, float, float& m, float& v) {
              return math::apply_lamb(step, *trust, w, m, v);
            });
}

void apply_rule(cudaStream_t stream, math::RuleKind kind, const math::UpdateStep& step,
                const Gradients& gradients, float scale, const UpdateArrays& arrays,
                void* scratch) {
  switch (kind) {
    case math::RuleKind::kSgd:
      return launch<0>(stream, "SGD", gradients, scale, arrays,
                       [step] __device__(float w, float g, float&, float&) {
                         return math::apply_sgd(step, w, g);
                       });
    case math::RuleKind::kMomentum:
    case math::RuleKind::kLars:
      return launch<1>(stream, "momentum", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float&) {
                         return math::apply_momentum(step, w, g, first);
                       });
    case math::RuleKind::kNesterov:
      return launch<1>(stream, "Nesterov", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float&) {
                         return math::apply_nesterov(step, w, g, first);
                       });
    case math::RuleKind::kAdaGrad:
      return launch<1>(stream, "AdaGrad", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float&) {
                         return math::apply_adagrad(step, w, g, first);
                       });
    case math::RuleKind::kRmsProp:
      return launch<1>(stream, "RMSProp", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float&) {
                         return math::apply_rmsprop(step, w, g, first);
                       });
    case math::RuleKind::kAdaDelta:
      return launch<2>(stream, "AdaDelta", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float& second) {
                         return math::apply_adadelta(step, w, g, first, second);
                       });
    case math::RuleKind::kAdam:
      return launch<2>(stream, "Adam", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float& second) {
                         return math::apply_adam(step, w, g, first, second);
                       });
    case math::RuleKind::kAdamW:
      return launch<2>(stream, "AdamW", gradients, scale, arrays,
                       [step] __device__(float w, float g, float& first, float& second) {
                         return math::apply_adamw(step, w, g, first, second);
                       });
    case math::RuleKind::kLamb: {
      auto* trust = static_cast<float*>(scratch);
      return apply_lamb(stream, step, gradients, scale, arrays, trust,
                        static_cast<std::byte*>(scratch) + 256);
    }
  }
  TAUT_CHECK(false, "an update rule of no kind");
}

/// As many gradients as one launch takes: of more, their sum.
Gradients few_of(cudaStream_t stream, math::RuleKind kind, std::span<const Scaled> list,
                 std::int64_t count, void* scratch) {
  if (list.size() <= kMostGradients) return gradients_of(list);
  auto* sums =
      reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + update_scratch(kind, 1, count));
  weighted_sum(stream, list, sums, count);
  const Scaled all[]{{sums, 1.0F}};
  return gradients_of(all);
}

}  // namespace

std::size_t update_scratch(math::RuleKind kind, std::size_t gradients, std::int64_t count) {
  const std::size_t norms = kind == math::RuleKind::kLamb ? 256 + reduce_scratch(all_of(count)) : 0;
  const std::size_t sums =
      gradients > kMostGradients ? static_cast<std::size_t>(count) * sizeof(float) : 0;
  return (norms + 255) / 256 * 256 + sums;
}

void apply_update(cudaStream_t stream, math::RuleKind kind, const math::UpdateStep& step,
                  std::span<const Scaled> gradients, float scale, const UpdateArrays& arrays,
                  void* scratch) {
  if (arrays.count <= 0) return;
  apply_rule(stream, kind, step, few_of(stream, kind, gradients, arrays.count, scratch), scale,
             arrays, scratch);
}

void apply_average(cudaStream_t stream, std::span<const Scaled> contributions, float share,
                   float* values, std::int64_t count, void* scratch) {
  if (count <= 0) return;
  const Gradients all = few_of(stream, math::RuleKind::kSgd, contributions, count, scratch);
  const auto n = static_cast<float>(contributions.size());
  each(stream, "apply_average", count, [=] __device__(std::int64_t i) {
    const float old = values[i];
    values[i] = old + share * (summed<1>(all, i).at[0] / n - old);
  });
}

}  // namespace taut::cuda
