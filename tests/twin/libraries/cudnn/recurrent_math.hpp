#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/twin/libraries/arithmetic.hpp"

// One recurrent layer as cuDNN's documentation defines it: a direction, a layer, sequences of one
// length, [steps, streams, channels], all float32.
// Source    NVIDIA, cuDNN API Reference, cudnnRNNMode_t: the formulas of CUDNN_RNN_TANH, CUDNN_LSTM
//           and CUDNN_GRU; cudnnGetRNNWeightParams(): the numbers of the linear layers
namespace taut::twin::dnn {

struct RecurrentShape {
  cudnnRNNMode_t mode = CUDNN_LSTM;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  std::size_t steps = 0, streams = 0, inputs = 0, hidden = 0;
  Format factor = Format::kFloat32;

  /// LSTM: i, f, the new values, o. GRU: r, i, the new values.
  [[nodiscard]] std::size_t gates() const {
    return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1;
  }
  [[nodiscard]] bool has_input_bias() const {
    return bias == CUDNN_RNN_SINGLE_INP_BIAS || bias == CUDNN_RNN_DOUBLE_BIAS;
  }
  [[nodiscard]] bool has_hidden_bias() const {
    return bias == CUDNN_RNN_SINGLE_REC_BIAS || bias == CUDNN_RNN_DOUBLE_BIAS;
  }
  [[nodiscard]] std::string to_string() const;
};

/// Where the linear layers are in the weight space, in floats; as the seed says, with gaps between
/// them.
struct WeightPlaces {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Part {
    std::size_t matrix = kNone;  // [hidden, inputs], behind the input's gates [hidden, hidden]
    std::size_t bias = kNone;    // [hidden]
  };
  std::vector<Part> parts;  // the gates of the input, then those of the hidden state
  std::size_t count = 0;    // floats of the whole
};
[[nodiscard]] WeightPlaces weight_places(const RecurrentShape& shape);

/// What a forward keeps for its backward, and that for the weights' gradients. Floats each:
struct Kept {
  float* gates = nullptr;  // [steps, streams, gates, hidden], behind their functions
  float* cells = nullptr;  // [steps, streams, hidden]; LSTM
  float* recurrent =
      nullptr;  // [steps, streams, hidden]: a GRU's new values' share of the hidden state
  float* gradients =
      nullptr;  // [steps, streams, gates, hidden], of what goes into the gates' functions

  [[nodiscard]] static std::size_t count_of(const RecurrentShape& shape);
  [[nodiscard]] static Kept at(const RecurrentShape& shape, float* begin);
};

/// Null where there is none: hx, cx, hy, cy.
struct ForwardOperands {
  const float *x = nullptr, *hx = nullptr, *cx = nullptr, *weights = nullptr;
  float *y = nullptr, *hy = nullptr, *cy = nullptr;
};
void forward(const RecurrentShape& shape, const WeightPlaces& places,
             const ForwardOperands& operands, const Kept& kept);

/// Null where there is none: hx, cx, dhy, dcy, dhx, dcx.
struct BackwardOperands {
  const float *y = nullptr, *dy = nullptr, *hx = nullptr, *cx = nullptr, *dhy = nullptr,
              *dcy = nullptr, *weights = nullptr;
  float *dx = nullptr, *dhx = nullptr, *dcx = nullptr;
};
void backward_data(const RecurrentShape& shape, const WeightPlaces& places,
                   const BackwardOperands& operands, const Kept& kept);

/// Adds to weight_gradients.
void backward_weights(const RecurrentShape& shape, const WeightPlaces& places, const float* x,
                      const float* hx, const float* y, const Kept& kept, float* weight_gradients);

}  // namespace taut::twin::dnn
