#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"
#include "worker/engine/ops/elementwise.hpp"
#include "worker/engine/ops/ops.hpp"
#include "worker/engine/stream.hpp"

// Operations over sequences. A sequence is stored as [T steps, N streams, C channels], row by row.
namespace taut {

struct EmbedSpec {
  using Op = class EmbedOp;
  std::int64_t count = 0;    // of numbers in the bottom
  std::int64_t inputs = 0;   // a number is in [0, inputs)
  std::int64_t outputs = 0;  // elements of a row
};

/// top [count, outputs]: the row of weights [inputs, outputs] that each number names, plus the bias
/// Errors    std::invalid_argument: a number that names no row
/// Source    Caffe, src/caffe/layers/embed_layer.cpp
class EmbedOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "embedding";
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

struct PositionEmbedSpec {
  using Op = class PositionEmbedOp;
  SequenceShape shape;
};

/// top[t, n] = bottom[t, n] + weights[t]; weights [steps, channels]. Top may be bottom.
class PositionEmbedOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "position embedding";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
                       DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> weights_gradient, DeviceSpan<float> bottom_gradient) = 0;
};

enum class CellKind : std::uint8_t { kRnn, kLstm, kGru };

[[nodiscard]] constexpr std::int64_t gate_count(CellKind cell) {
  return cell == CellKind::kLstm ? 4 : cell == CellKind::kGru ? 3 : 1;
}

/// Where sequences may start in a batch.
enum class Resets : std::uint8_t {
  kAnywhere,  // wherever cont is 0
  kAtStart,   // at its first step only, or nowhere: from the second step on every marker is 1
};

struct RecurrentSpec {
  using Op = class RecurrentOp;
  CellKind cell = CellKind::kLstm;
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  Resets resets = Resets::kAnywhere;  // guaranteed for every cont passed to a forward
  bool constant = false;              // whether forwards have constant sums
  bool state_gradient = false;        // whether backwards have a state's gradient
};

/// One layer's parameters, or their gradients. The gates' rows follow each other: G * hidden rows.
template <class T>
struct RecurrentParameters {
  DeviceSpan<T> input_weight;   // [G hidden, inputs]
  DeviceSpan<T> input_bias;     // [G hidden]
  DeviceSpan<T> hidden_weight;  // [G hidden, hidden]
  DeviceSpan<T> hidden_bias;    // [G hidden]; GRU only
};

/// One recurrent layer, from the first step to the last. With x the step's input, h' and c' the
/// state before it, each multiplied by the step's cont marker (0 starts a sequence, 1 continues
/// one):
///
/// RNN    h = tanh(W x + b + U h')
/// LSTM   i, f, o = sigmoid(W x + b + U h'), g = tanh(W x + b + U h'); c = f c' + i g; h = o
///        tanh(c). Rows are in Caffe's order i, f, o, g (PyTorch's is i, f, g, o)
/// GRU    r, z = sigmoid(W x + b + U h' + v), n = tanh(W x + b + r (U h' + v)); h = (1 - z) n + z
///        h'. Rows are in the order r, z, n, PyTorch's and cuDNN's
///
/// constant  [streams, G hidden], or empty: added to W x + b at every step
/// state  [hidden], for an LSTM [2 * hidden] of each stream: h, then c, as [1 or 2, streams,
///        hidden]. Read at the first step, overwritten with the last one's
/// cont   [steps, streams], or empty: every step continues. With Resets::kAtStart an implementation
///        may read only the first step's
/// Source    Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8), 1997,
///           with the forget gates of Gers et al., 2000, as in Caffe's lstm_unit_layer.cpp and
///           recurrent_layer.cpp; Cho et al., "Learning Phrase Representations using RNN
///           Encoder-Decoder", EMNLP 2014, with the reset applied after the product
class RecurrentOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "recurrence";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
                       DeviceSpan<const float> constant,
                       const RecurrentParameters<const float>& parameters, Updated state,
                       DeviceSpan<float> top) = 0;
  /// Follows a forward with the same bottom and cont. An empty gradient is not computed.
  /// top_gradient    empty: zeros
  /// state_gradient  as state; in: of the last step's state, without the top's contribution; out:
  ///                 of the state before the first step. Empty: none (truncated backpropagation)
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
                        const RecurrentParameters<const float>& parameters,
                        DeviceSpan<const float> top_gradient,
                        const RecurrentParameters<float>& gradients,
                        DeviceSpan<float> constant_gradient, Updated state_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// The divisor of a row's distances from its mean.
enum class RowDivisor : std::uint8_t {
  kRootOfSum,  // sqrt(variance + epsilon)
  kSumOfRoot,  // sqrt(variance) + epsilon
  kOne,
};

struct LayerNormSpec {
  using Op = class LayerNormOp;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float epsilon = 1e-5F;
  RowDivisor divisor = RowDivisor::kRootOfSum;
};

/// top = (bottom - mean) / divisor * weight + bias, with each row's mean and (biased) variance.
/// Weight and bias [columns]; both empty: 1 and 0. kSumOfRoot's gradient treats epsilon as 0, as
/// Caffe's does.
/// Source    Ba et al., "Layer Normalization", arXiv:1607.06450, section 3; Caffe,
///           src/caffe/layers/mvn_layer.cpp
class LayerNormOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "layer normalisation";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weight,
                       DeviceSpan<const float> bias, DeviceSpan<float> top) = 0;
  /// Follows a forward with the same bottom.
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weight,
                        DeviceSpan<const float> top_gradient, DeviceSpan<float> weight_gradient,
                        DeviceSpan<float> bias_gradient, DeviceSpan<float> bottom_gradient) = 0;
};

struct AttentionSpec {
  using Op = class AttentionOp;
  SequenceShape shape;  // of the top
  std::int64_t heads = 1;
  bool causal = false;
  DropoutSpec dropout;  // of the attention weights; its shape is not read, a ratio of 0: none
};

/// Scaled dot-product attention of a sequence to itself, for each stream and head separately:
/// softmax(Q K^T / sqrt(d)) V with d = channels / heads.
/// qkv   [steps, streams, 3 * channels]: queries, keys, values, each with its heads in sequence
/// mask  [steps, streams]: no step attends to a step with mask 0; empty: to all. A step that may
///       attend to none gets zeros
/// Source    Vaswani et al., "Attention Is All You Need", NIPS 2017, section 3.2.1
class AttentionOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "attention";
  virtual void forward(Stream&, Clock clock, DeviceSpan<const float> qkv,
                       DeviceSpan<const float> mask, DeviceSpan<float> top) = 0;
  /// Follows a forward with the same qkv.
  virtual void backward(Stream&, DeviceSpan<const float> qkv, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> qkv_gradient) = 0;
};

#define TAUT_SEQUENCE_SPECS(X) \
  X(EmbedSpec) X(PositionEmbedSpec) X(RecurrentSpec) X(LayerNormSpec) X(AttentionSpec)

}  // namespace taut
