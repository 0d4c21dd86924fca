#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/math/codec.hpp"

// A worker's updates, encoded before they are copied to the host: the arithmetic of
// common/math/codec_elements.hpp, compiled without contraction, so that the bytes are the CPU's.
namespace taut::cuda {

/// A slice of an update.
struct EncodedSlice {
  const float* values = nullptr;
  std::int64_t count = 0;  // at least 1
  std::byte* out = nullptr;
  float* state = nullptr;  // nullptr: the encoding keeps nothing
};
/// As math::encode(), bit for bit.
/// out      at a multiple of 8
/// scratch  encode_scratch() bytes
/// REQUIRES  not float32
void encode(cudaStream_t stream, const math::Encoding& encoding, const math::Draw& draw,
            const EncodedSlice& slice, void* scratch);
[[nodiscard]] std::size_t encode_scratch(const math::Encoding& encoding, std::int64_t count);

}  // namespace taut::cuda
