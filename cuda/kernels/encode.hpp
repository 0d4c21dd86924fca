#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/math/codec.hpp"

// A worker's updates, encoded before they are copied to the host: the arithmetic of
// common/math/codec_elements.hpp, compiled without contraction, so that the bytes are the CPU's.
namespace taut::cuda {

/// Whether encode() has it: FP16, BF16, INT8, ONE_BIT and RANDOM_K. Of the others, TOP_K searches
/// for the largest values of a slice and POWER_SGD multiplies matrices in the CPU's order.
[[nodiscard]] bool encodes(const math::Encoding& encoding);

struct EncodedSlice {
  const float* values = nullptr;
  std::int64_t count = 0;  // at least 1
  std::byte* out = nullptr;
  float* state = nullptr;  // nullptr: the encoding keeps nothing
};
/// As math::encode(), bit for bit.
/// out      at a multiple of 8
/// scratch  encode_scratch() bytes
/// REQUIRES  encodes(encoding)
void encode(cudaStream_t stream, const math::Encoding& encoding, const math::Draw& draw,
            const EncodedSlice& slice, void* scratch);
[[nodiscard]] std::size_t encode_scratch();

}  // namespace taut::cuda
