#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/encoding/encode.hpp"

namespace taut::cuda {

/// encode() for TOP_K: values are found and written in the same order as on the CPU.
/// scratch   top_k_scratch() bytes
/// REQUIRES  fewer than 2^31 values
void encode_top_k(cudaStream_t stream, std::uint32_t every, const EncodedSlice& slice,
                  void* scratch);
[[nodiscard]] std::size_t top_k_scratch();

}  // namespace taut::cuda
