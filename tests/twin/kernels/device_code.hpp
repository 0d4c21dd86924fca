#pragma once

#include <cuda_runtime_api.h>
#include <math.h>  // NOLINT(modernize-deprecated-headers): what kernels call is global
#include <vector_functions.h>

#include <bit>
#include <cstdint>
#include <source_location>
#include <type_traits>

#include "tests/twin/kernels/block.hpp"

// What nvcc has built in and our kernels use, for a host compiler. What is defined here is all
// that they use: a kernel that needs more does not compile until it is written, and checked, here.

#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

// Of the thread that runs. The block's runner sets them before it lets a thread continue.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

using taut::twin::BlockCall;

inline void __syncthreads(std::source_location place = std::source_location::current()) {
  (void)taut::twin::call_block({.kind = BlockCall::kBarrier, .place = place});
}
inline int __syncthreads_or(int predicate,
                            std::source_location place = std::source_location::current()) {
  return static_cast<int>(taut::twin::call_block(
      {.kind = BlockCall::kBarrierOr, .place = place, .bits = predicate != 0 ? 1U : 0U}));
}

namespace taut::twin {
template <class T>
T shuffle(BlockCall::Kind kind, unsigned mask, T value, unsigned argument,
          std::source_location place) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4 or 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const std::uint64_t bits = call_block({.kind = kind,
                                         .place = place,
                                         .mask = mask,
                                         .argument = argument,
                                         .bits = std::bit_cast<Bits>(value)});
  return std::bit_cast<T>(static_cast<Bits>(bits));
}
}  // namespace taut::twin

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                   std::source_location place = std::source_location::current()) {
  return taut::twin::shuffle(BlockCall::kShuffleDown, mask, value, delta, place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes,
                  std::source_location place = std::source_location::current()) {
  return taut::twin::shuffle(BlockCall::kShuffleXor, mask, value, static_cast<unsigned>(lanes),
                             place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location place = std::source_location::current()) {
  return static_cast<unsigned>(taut::twin::call_block({.kind = BlockCall::kBallot,
                                                       .place = place,
                                                       .mask = mask,
                                                       .bits = predicate != 0 ? 1U : 0U}));
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location place = std::source_location::current()) {
  return __ballot_sync(mask, predicate, place) != 0 ? 1 : 0;
}

inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
/// Threads run one at a time, so it needs nothing more.
inline int atomicCAS(int* at, int expected, int value) {
  const int old = *at;
  if (old == expected) *at = value;
  return old;
}
inline unsigned long long atomicMax(unsigned long long* at, unsigned long long value) {
  const unsigned long long old = *at;
  if (value > old) *at = value;
  return old;
}
unsigned atomicAdd(unsigned* at, unsigned value);
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline float rsqrtf(float x) {
  return 1 / sqrtf(x);
}
