#pragma once

#include "cuda/fault.hpp"
#include "cuda/kernels/start.cuh"

namespace taut::cuda {

/// Writes down what is wrong, unless something else was before. fault  null: nobody asks
__device__ inline void report_fault(Fault* fault, Fault::Kind kind, float value,
                                    std::int64_t position, std::int64_t limit) {
  if (fault == nullptr || atomicCAS(&fault->kind, Fault::kNone, kind) != Fault::kNone) return;
  fault->value = value;
  fault->position = position;
  fault->limit = limit;
}

}  // namespace taut::cuda
