#pragma once

#include <cstdint>

#include "cuda/kernels/launch.cuh"

// Neighbouring elements, read and written at once.
namespace taut::cuda {

/// Four neighbours, or one if arrays are not aligned or end.
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

}  // namespace taut::cuda
