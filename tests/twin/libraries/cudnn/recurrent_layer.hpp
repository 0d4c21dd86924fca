#pragma once

#include <cstddef>

#include "tests/twin/libraries/cudnn/cudnn_state.hpp"
#include "tests/twin/libraries/cudnn/recurrent_math.hpp"

namespace taut::twin::dnn {

/// A layer as its descriptors tell it.
/// data  null where only the weights are requested
[[nodiscard]] RecurrentShape shape_of(cudnnRNNDescriptor_t layer, cudnnRNNDataDescriptor_t data);

[[nodiscard]] inline std::size_t bytes_of(std::size_t floats) {
  return floats * sizeof(float);
}
/// Bytes before what a reserve space keeps.
constexpr std::size_t kReserveHeadBytes = 64;
[[nodiscard]] std::size_t reserve_bytes(const RecurrentShape& shape);
[[nodiscard]] std::size_t workspace_bytes(const RecurrentShape& shape);

}  // namespace taut::twin::dnn
