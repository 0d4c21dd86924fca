#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/convolution_key.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {

/// Formulas stand at RecurrentOp in worker/backend; cuDNN's are the same.
enum class Cell : std::uint8_t { kRnn, kLstm, kGru };

struct RecurrentShape {
  /// The longest sequences that cuDNN takes.
  static constexpr std::int64_t kMostSteps = 65535;

  Cell cell = Cell::kLstm;
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  Numbers numbers = Numbers::kFloat32;  // or TF32

  [[nodiscard]] std::int64_t gates() const {
    return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
  }
  /// Elements of a state: h, and behind it an LSTM's c.
  [[nodiscard]] std::int64_t state_count() const {
    return (cell == Cell::kLstm ? 2 : 1) * streams * hidden;
  }
  /// For errors: "LSTM of 50 steps, 32 streams, 256 inputs, 256 units, float32"
  [[nodiscard]] std::string to_string() const;
};

/// Our tables of a layer's weights, gates below each other: an LSTM's i, f, o, g, a GRU's r, z, n.
/// Null: left out.
template <class T>
struct RecurrentTables {
  T* input_weight = nullptr;   // [G hidden, inputs]
  T* input_bias = nullptr;     // [G hidden]
  T* hidden_weight = nullptr;  // [G hidden, hidden]
  T* hidden_bias = nullptr;    // [G hidden]; a GRU's
};

/// One recurrent layer on cuDNN: all steps of all streams in one call, each step after the other
/// without a reset. Sequences lie as [steps, streams, channels]; all is float32.
/// Source    NVIDIA, cuDNN API Reference, cudnnRNNForward() and what it refers to
/// Thread    one at a time
class Recurrent {
 public:
  /// Errors    std::invalid_argument: a side that cuDNN does not take; DeviceError
  Recurrent(cudnnHandle_t library, const RecurrentShape& shape);

  /// Bytes of the weights as cuDNN wants them, of its scratch memory within a call, and of what it
  /// keeps from a forward to its backward.
  [[nodiscard]] std::size_t weight_bytes() const { return weight_bytes_; }
  [[nodiscard]] std::size_t workspace() const { return workspace_; }
  [[nodiscard]] std::size_t reserve() const { return reserve_; }

  /// Our tables into cuDNN's block of weights, or out of a block of gradients, in one launch.
  void pack(cudnnHandle_t library, cudaStream_t stream, const RecurrentTables<const float>& tables,
            void* weights);
  void unpack(cudnnHandle_t library, cudaStream_t stream, const void* gradients,
              const RecurrentTables<float>& tables);

  /// What all three calls work with; library's stream is what they are queued on.
  struct Call {
    cudnnHandle_t library = nullptr;
    const float* bottom = nullptr;  // [steps, streams, inputs]
    const float* state = nullptr;   // before the first step
    void* workspace = nullptr;      // workspace() bytes
    void* reserve = nullptr;        // reserve() bytes
  };
  /// state_after may not be the call's state.
  void forward(const Call& call, const void* weights, float* top, float* state_after);
  /// Follows a forward; top is what that wrote. No gradient comes from behind the last step, or
  /// flows into the state.
  void backward_bottom(const Call& call, const void* weights, const float* top,
                       const float* top_gradient, float* bottom_gradient);
  /// Follows backward_bottom; weight_gradients, as cuDNN's weights lie, are overwritten.
  void backward_weights(const Call& call, cudaStream_t stream, const float* top,
                        void* weight_gradients);

 private:
  /// Where one gate's rows lie in cuDNN's block, in floats, and in which table of ours.
  struct Part {
    bool is_input = false;  // of the input's tables, else of the hidden state's
    bool is_bias = false;
    std::int64_t packed = 0;
    std::int64_t own = 0;  // within our table
    std::int64_t count = 0;
  };
  /// The parts, asked of cuDNN once: it tells places within a block that is there.
  const std::vector<Part>& parts(cudnnHandle_t library, const void* weights);
  template <class T>
  [[nodiscard]] static T* place_in(const RecurrentTables<T>& tables, const Part& part);
  /// The c of a state; null: it has none.
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
