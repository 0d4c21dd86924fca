#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/convolution_key.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {

/// Formulas are at RecurrentOp in worker/engine/ops; cuDNN's are the same.
enum class Cell : std::uint8_t { kRnn, kLstm, kGru };

struct RecurrentShape {
  /// The longest sequences that cuDNN supports.
  static constexpr std::int64_t kMaxSteps = 65535;

  Cell cell = Cell::kLstm;
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  Numbers numbers = Numbers::kFloat32;  // or TF32

  [[nodiscard]] std::int64_t gates() const {
    return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
  }
  /// Elements of a state: h, followed by an LSTM's c.
  [[nodiscard]] std::int64_t state_count() const {
    return (cell == Cell::kLstm ? 2 : 1) * streams * hidden;
  }
  /// For errors: "LSTM of 50 steps, 32 streams, 256 inputs, 256 units, float32"
  [[nodiscard]] std::string to_string() const;
};

/// A layer's weights in Tautline's order, the gates stacked: an LSTM's i, f, o, g, a GRU's r, z, n.
/// nullptr: omitted.
template <class T>
struct RecurrentTables {
  T* input_weight = nullptr;   // [G hidden, inputs]
  T* input_bias = nullptr;     // [G hidden]
  T* hidden_weight = nullptr;  // [G hidden, hidden]
  T* hidden_bias = nullptr;    // [G hidden]; a GRU's
};

/// One recurrent layer on cuDNN: all steps of all streams in one call, without a reset between
/// steps. Sequences are stored as [steps, streams, channels]; all numbers are float32.
/// Source    NVIDIA, cuDNN API Reference, cudnnRNNForward() and what it refers to
/// Thread    one at a time
class Recurrent {
 public:
  /// Errors    std::invalid_argument: an extent that cuDNN does not support; DeviceError
  Recurrent(cudnnHandle_t library, const RecurrentShape& shape);

  /// The bytes of the weights in cuDNN's order, of its scratch memory during a call, and of the
  /// memory that it keeps from a forward to its backward.
  [[nodiscard]] std::size_t weight_bytes() const { return weight_bytes_; }
  [[nodiscard]] std::size_t workspace() const { return workspace_; }
  [[nodiscard]] std::size_t reserve() const { return reserve_; }

  /// Copies tables into cuDNN's block of weights, or a block of gradients into tables, in one
  /// launch.
  void pack(cudnnHandle_t library, cudaStream_t stream, const RecurrentTables<const float>& tables,
            void* weights);
  void unpack(cudnnHandle_t library, cudaStream_t stream, const void* gradients,
              const RecurrentTables<float>& tables);

  /// The operands of all three calls, which are queued on library's stream.
  struct Call {
    cudnnHandle_t library = nullptr;
    const float* bottom = nullptr;  // [steps, streams, inputs]
    const float* state = nullptr;   // before the first step
    void* workspace = nullptr;      // workspace() bytes
    void* reserve = nullptr;        // reserve() bytes
  };
  /// state_after must not be the call's state.
  void forward(const Call& call, const void* weights, float* top, float* state_after);
  /// Follows a forward; top is its output. No gradient arrives from later batches or flows into the
  /// state.
  void backward_bottom(const Call& call, const void* weights, const float* top,
                       const float* top_gradient, float* bottom_gradient);
  /// Follows backward_bottom; weight_gradients, in the order of cuDNN's weights, are overwritten.
  void backward_weights(const Call& call, cudaStream_t stream, const float* top,
                        void* weight_gradients);

 private:
  /// The place of one gate's rows in cuDNN's block, in floats, and in the table that holds them.
  struct Part {
    bool is_input = false;  // of the input's tables, otherwise of the hidden state's
    bool is_bias = false;
    std::int64_t packed = 0;
    std::int64_t own = 0;  // within the table
    std::int64_t count = 0;
  };
  /// The parts, queried from cuDNN once: it returns addresses within an existing block.
  const std::vector<Part>& parts(cudnnHandle_t library, const void* weights);
  template <class T>
  [[nodiscard]] static T* place_in(const RecurrentTables<T>& tables, const Part& part);
  /// The c of a state; nullptr if it has none.
  template <class T>
  [[nodiscard]] T* cell_state(T* state) const {
    return shape_.cell == Cell::kLstm ? state + shape_.streams * shape_.hidden : nullptr;
  }

  RecurrentShape shape_;
  std::string about_;  // for errors
  DropoutDescriptor no_dropout_;
  RecurrentDescriptor layer_;
  SequenceDescriptor bottom_, top_;
  TensorDescriptor state_;
  std::size_t weight_bytes_ = 0;
  std::size_t workspace_ = 0;
  std::size_t reserve_ = 0;
  std::vector<Part> parts_;
};

}  // namespace taut::cuda
