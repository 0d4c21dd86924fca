#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/math/codec.hpp"
#include "cuda/kernels/encoding/encode.hpp"

namespace taut::cuda {

/// encode() for POWER_SGD: products are summed in the same lanes as on the CPU.
/// scratch  low_rank_scratch() bytes
void encode_low_rank(cudaStream_t stream, const math::Encoding& encoding, const math::Draw& draw,
                     const EncodedSlice& slice, void* scratch);
[[nodiscard]] std::size_t low_rank_scratch(const math::Encoding& encoding, std::int64_t count);

}  // namespace taut::cuda
