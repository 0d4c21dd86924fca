#pragma once

#include "cuda/fault.hpp"
#include "cuda/kernels/start.cuh"

namespace taut::cuda {

/// Records a fault, unless one of another kind or at a lower position is recorded.
/// fault  nullptr: not recorded
__device__ inline void report_fault(Fault* fault, Fault::Kind kind, float value,
                                    std::int64_t position, std::int64_t limit) {
  if (fault == nullptr) return;
  const std::int32_t known = atomicCAS(&fault->kind, Fault::kNone, kind);
  if (known != Fault::kNone && known != kind) return;
  fault->limit = limit;
  const std::int64_t counted = Fault::kLastPosition + 1 -
                               (position < Fault::kLastPosition ? position : Fault::kLastPosition);
  (void)atomicMax(&fault->first,
                  (static_cast<unsigned long long>(counted) << 32U) | __float_as_uint(value));
}

}  // namespace taut::cuda
