#pragma once

#include <memory>

#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/fused_ops.hpp"

namespace taut::cuda_ops {

// One make_op() for each spec of several layers. Errors: std::invalid_argument.
#define TAUT_DECLARE_MAKER(Spec) \
  [[nodiscard]] std::unique_ptr<Spec::Op> make_op(CudaDevice& device, const Spec& spec);
TAUT_EACH_FUSED_SPEC(TAUT_DECLARE_MAKER)
#undef TAUT_DECLARE_MAKER

}  // namespace taut::cuda_ops
