#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/types.hpp"
#include "worker/backend/device_memory.hpp"
#include "worker/backend/ops.hpp"
#include "worker/backend/stream.hpp"

// Operations over sequences. A sequence lies as [T steps, N streams, C channels], row by row; what
// ops.hpp says of overwriting and of empty gradients holds here too.
namespace taut {

struct EmbedSpec {
  std::int64_t count = 0;    // of numbers in the bottom
  std::int64_t inputs = 0;   // a number lies in [0, inputs)
  std::int64_t outputs = 0;  // elements of a row
};

/// top [count, outputs]: the row of weights [inputs, outputs] that each number names, plus the bias
/// Errors    std::invalid_argument: a number that names no row
/// Source    Caffe, src/caffe/layers/embed_layer.cpp
class EmbedOp : public DeviceOp {
 public:
  /// bias  empty: none
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
                       DeviceSpan<const float> bias, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> bottom,
                        DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                        DeviceSpan<float> bias_gradient) = 0;
};

struct SequenceShape {
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t channels = 0;
};

/// top[t, n] = bottom[t, n] + weights[t]; weights [steps, channels]. Top may be bottom.
class PositionEmbedOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
                       DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> weights_gradient, DeviceSpan<float> bottom_gradient) = 0;
};

enum class CellKind : std::uint8_t { kRnn, kLstm, kGru };

[[nodiscard]] constexpr std::int64_t gate_count(CellKind cell) {
  return cell == CellKind::kLstm ? 4 : cell == CellKind::kGru ? 3 : 1;
}

/// Where in a batch sequences begin.
enum class Resets : std::uint8_t {
  kAnywhere,  // where cont says so
  kAtStart,   // at its first step alone, or nowhere: from the second step on every marker is 1
};

struct RecurrentSpec {
  CellKind cell = CellKind::kLstm;
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  Resets resets = Resets::kAnywhere;  // what is promised of every cont to come
  bool constant = false;              // whether forwards come with constant sums
  bool state_gradient = false;        // whether backwards come with a state's gradient
};

/// One layer's parameters, or their gradients. Gates lie below each other: G * hidden rows.
template <class T>
struct RecurrentParameters {
  DeviceSpan<T> input_weight;   // [G hidden, inputs]
  DeviceSpan<T> input_bias;     // [G hidden]
  DeviceSpan<T> hidden_weight;  // [G hidden, hidden]
  DeviceSpan<T> hidden_bias;    // [G hidden]; GRU only
};

/// One recurrent layer, from the first step to the last. With x the step's input, h' and c' the
/// state before it, each times the step's cont marker (0 begins a sequence, 1 goes on):
///
/// RNN    h = tanh(W x + b + U h')
/// LSTM   i, f, o = sigmoid(W x + b + U h'), g = tanh(W x + b + U h'); c = f c' + i g; h = o tanh(c).
///        Rows lie in Caffe's order i, f, o, g (PyTorch's is i, f, g, o)
/// GRU    r, z = sigmoid(W x + b + U h' + v), n = tanh(W x + b + r (U h' + v)); h = (1 - z) n + z h'.
///        Rows lie in the order r, z, n, PyTorch's and cuDNN's
///
/// constant  [streams, G hidden], or empty: what is added to W x + b at every step
/// state  [hidden], for an LSTM [2 * hidden] of each stream: h, then c, as [1 or 2, streams, hidden].
///        Read at the first step, overwritten with what the last one leaves
/// cont   [steps, streams], or empty: every step goes on. With Resets::kAtStart only the first step's are
///        read for certain
/// Source    Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8), 1997,
///           with the forget gates of Gers et al., 2000, as in Caffe's lstm_unit_layer.cpp and
///           recurrent_layer.cpp; Cho et al., "Learning Phrase Representations using RNN
///           Encoder-Decoder", EMNLP 2014, with the reset behind the product
class RecurrentOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
                       DeviceSpan<const float> constant,
                       const RecurrentParameters<const float>& parameters, DeviceSpan<float> state,
                       DeviceSpan<float> top) = 0;
  /// Follows a forward with the same bottom and cont. An empty gradient is one that nobody wants.
  /// top_gradient    empty: zeros
  /// state_gradient  as state; in: of what the last step left, beside what reaches it from the top;
  ///                 out: of what the first step began with. Empty: nobody has and nobody wants one
  ///                 (truncated backpropagation)
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
                        const RecurrentParameters<const float>& parameters,
                        DeviceSpan<const float> top_gradient,
                        const RecurrentParameters<float>& gradients,
                        DeviceSpan<float> constant_gradient, DeviceSpan<float> state_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct LayerNormSpec {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float epsilon = 1e-5F;
};

/// top = (bottom - mean) / sqrt(variance + epsilon) * weight + bias, mean and variance (of the whole
/// row, biased) for each row. Weight and bias [columns]; both empty: 1 and 0.
/// Source    Ba et al., "Layer Normalization", arXiv:1607.06450, section 3
class LayerNormOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weight,
                       DeviceSpan<const float> bias, DeviceSpan<float> top) = 0;
  /// Follows a forward with the same bottom.
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weight,
                        DeviceSpan<const float> top_gradient, DeviceSpan<float> weight_gradient,
                        DeviceSpan<float> bias_gradient, DeviceSpan<float> bottom_gradient) = 0;
};

/// top = x * P(X < x) for a standard normal X, element by element.
/// Source    Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415
class GeluOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> bottom,
                        DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct AttentionSpec {
  SequenceShape shape;  // of the top
  std::int64_t heads = 1;
  bool causal = false;
  DropoutSpec dropout;  // of the attention weights; its shape is not read, a ratio of 0: none
};

/// Scaled dot-product attention of a sequence to itself, for each stream and head by itself:
/// softmax(Q K^T / sqrt(d)) V with d = channels / heads.
/// qkv   [steps, streams, 3 * channels]: queries, keys, values, of each the heads after each other
/// mask  [steps, streams]: nobody attends to a step whose number is 0; empty: to all. A step that
///       may attend to none gets zeros
/// Source    Vaswani et al., "Attention Is All You Need", NIPS 2017, section 3.2.1
class AttentionOp : public DeviceOp {
 public:
  virtual void forward(Stream&, Clock clock, DeviceSpan<const float> qkv,
                       DeviceSpan<const float> mask, DeviceSpan<float> top) = 0;
  /// Follows a forward with the same qkv.
  virtual void backward(Stream&, DeviceSpan<const float> qkv, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> qkv_gradient) = 0;
};

}  // namespace taut
