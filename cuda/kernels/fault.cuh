#pragma once

#include "cuda/fault.hpp"
#include "cuda/kernels/start.cuh"

namespace taut::cuda {

/// Records a fault, unless there is one already. fault  nullptr: not recorded
__device__ inline void report_fault(Fault* fault, Fault::Kind kind, float value,
                                    std::int64_t position, std::int64_t limit) {
  if (fault == nullptr || atomicCAS(&fault->kind, Fault::kNone, kind) != Fault::kNone) return;
  fault->value = value;
  fault->position = position;
  fault->limit = limit;
}

}  // namespace taut::cuda
