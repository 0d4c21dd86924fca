#include "cuda/recurrent.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <stdexcept>

#include "cuda/kernels/block_copy.hpp"

namespace taut::cuda {
namespace {

const char* word_for(Cell cell) {
  switch (cell) {
    case Cell::kRnn:
      return "RNN";
    case Cell::kLstm:
      return "LSTM";
    case Cell::kGru:
      return "GRU";
  }
  return "";
}

cudnnRNNMode_t mode_of(Cell cell) {
  switch (cell) {
    case Cell::kRnn:
      return CUDNN_RNN_TANH;
    case Cell::kLstm:
      return CUDNN_LSTM;
    case Cell::kGru:
      return CUDNN_GRU;
  }
  return CUDNN_LSTM;
}

/// cuDNN's number of a gate: its LSTM has i, f, g, o, Tautline's i, f, o, g. A GRU's order is
/// the same.
std::int64_t own_gate(Cell cell, std::int64_t gate) {
  constexpr std::array<std::int64_t, 4> kLstm{0, 1, 3, 2};
  return cell == Cell::kLstm ? kLstm[static_cast<std::size_t>(gate)] : gate;
}

int side(std::int64_t value) {
  return static_cast<int>(value);
}

void check_sides(const RecurrentShape& shape) {
  constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
  for (const std::int64_t value :
       {shape.streams, shape.inputs, shape.hidden, shape.streams * shape.hidden}) {
    if (value >= 1 && value <= kMaxInt) continue;
    throw std::invalid_argument(
        fmt::format("{}: a side must be between 1 and 2^31 - 1", shape.to_string()));
  }
  if (shape.steps >= 1 && shape.steps <= RecurrentShape::kMaxSteps) return;
  throw std::invalid_argument(fmt::format("{}: cuDNN takes between 1 and {} steps",
                                          shape.to_string(), RecurrentShape::kMaxSteps));
}

SequenceDescriptor describe(const RecurrentShape& shape, std::int64_t channels) {
  SequenceDescriptor descriptor = make_sequence_descriptor();
  const std::vector<int> lengths(static_cast<std::size_t>(shape.streams), side(shape.steps));
  check(cudnnSetRNNDataDescriptor(descriptor.get(), CUDNN_DATA_FLOAT,
                                  CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, side(shape.steps),
                                  side(shape.streams), side(channels), lengths.data(), nullptr),
        "cudnnSetRNNDataDescriptor", shape.to_string());
  return descriptor;
}

/// The lengths of sequences on the device; nullptr where cuDNN takes the descriptor's.
constexpr const std::int32_t* kNoLengths = nullptr;

}  // namespace

std::string RecurrentShape::to_string() const {
  return fmt::format("{} of {} steps, {} streams, {} inputs, {} units, {}", word_for(cell), steps,
                     streams, inputs, hidden, name_of(numbers));
}

Recurrent::Recurrent(cudnnHandle_t library, const RecurrentShape& shape)
    : shape_(shape), about_(shape.to_string()) {
  check_sides(shape);
  no_dropout_ = make_dropout_descriptor();
  check(cudnnSetDropoutDescriptor(no_dropout_.get(), library, 0, nullptr, 0, 0),
        "cudnnSetDropoutDescriptor", about_);
  layer_ = make_recurrent_descriptor();
  check(cudnnSetRNNDescriptor_v8(
            layer_.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(shape.cell),
            shape.cell == Cell::kGru ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_SINGLE_INP_BIAS,
            CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
            shape.numbers == Numbers::kFloat32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH,
            side(shape.inputs), side(shape.hidden), side(shape.hidden), 1, no_dropout_.get(),
            CUDNN_RNN_PADDED_IO_DISABLED),
        "cudnnSetRNNDescriptor_v8", about_);
  bottom_ = describe(shape, shape.inputs);
  top_ = describe(shape, shape.hidden);
  state_ = make_tensor_descriptor();
  const std::array<int, 3> extents{1, side(shape.streams), side(shape.hidden)};
  const std::array<int, 3> strides{side(shape.streams * shape.hidden), side(shape.hidden), 1};
  check(
      cudnnSetTensorNdDescriptor(state_.get(), CUDNN_DATA_FLOAT, 3, extents.data(), strides.data()),
      "cudnnSetTensorNdDescriptor", about_);
  check(cudnnGetRNNWeightSpaceSize(library, layer_.get(), &weight_bytes_),
        "cudnnGetRNNWeightSpaceSize", about_);
  check(cudnnGetRNNTempSpaceSizes(library, layer_.get(), CUDNN_FWD_MODE_TRAINING, bottom_.get(),
                                  &workspace_, &reserve_),
        "cudnnGetRNNTempSpaceSizes", about_);
}

const std::vector<Recurrent::Part>& Recurrent::parts(cudnnHandle_t library, const void* weights) {
  if (!parts_.empty()) return parts_;
  const TensorDescriptor matrix = make_tensor_descriptor();
  const TensorDescriptor vector = make_tensor_descriptor();
  const auto* const base = static_cast<const std::byte*>(weights);
  const auto place_of = [&](const void* address) {
    const auto bytes = static_cast<const std::byte*>(address) - base;
    return static_cast<std::int64_t>(bytes) / static_cast<std::int64_t>(sizeof(float));
  };
  std::vector<Part> parts;
  for (const bool is_input : {true, false}) {
    const std::int64_t width = is_input ? shape_.inputs : shape_.hidden;
    for (std::int64_t gate = 0; gate < shape_.gates(); ++gate) {
      void* weight = nullptr;
      void* bias = nullptr;
      check(cudnnGetRNNWeightParams(library, layer_.get(), 0, weight_bytes_, weights,
                                    side(is_input ? gate : shape_.gates() + gate), matrix.get(),
                                    &weight, vector.get(), &bias),
            "cudnnGetRNNWeightParams", about_);
      const std::int64_t row = own_gate(shape_.cell, gate) * shape_.hidden;
      parts.push_back({.is_input = is_input,
                       .is_bias = false,
                       .packed = place_of(weight),
                       .own = row * width,
                       .count = shape_.hidden * width});
      if (bias == nullptr) continue;
      parts.push_back({.is_input = is_input,
                       .is_bias = true,
                       .packed = place_of(bias),
                       .own = row,
                       .count = shape_.hidden});
    }
  }
  for (const Part& part : parts) {
    const auto end = static_cast<std::uint64_t>(part.packed + part.count) * sizeof(float);
    if (part.packed < 0 || end > weight_bytes_) {
      fail("cudnnGetRNNWeightParams", about_, "weights outside of their block");
    }
  }
  parts_ = std::move(parts);
  return parts_;
}

template <class T>
T* Recurrent::place_in(const RecurrentTables<T>& tables, const Part& part) {
  T* const table = part.is_input ? (part.is_bias ? tables.input_bias : tables.input_weight)
                                 : (part.is_bias ? tables.hidden_bias : tables.hidden_weight);
  return table == nullptr ? nullptr : table + part.own;
}

void Recurrent::pack(cudnnHandle_t library, cudaStream_t stream,
                     const RecurrentTables<const float>& tables, void* weights) {
  std::vector<BlockCopy> copies;
  for (const Part& part : parts(library, weights)) {
    copies.push_back(
        {place_in(tables, part), static_cast<float*>(weights) + part.packed, part.count});
  }
  copy_blocks(stream, copies);
}

void Recurrent::unpack(cudnnHandle_t library, cudaStream_t stream, const void* gradients,
                       const RecurrentTables<float>& tables) {
  std::vector<BlockCopy> copies;
  for (const Part& part : parts(library, gradients)) {
    float* const into = place_in(tables, part);
    if (into == nullptr) continue;
    copies.push_back({static_cast<const float*>(gradients) + part.packed, into, part.count});
  }
  copy_blocks(stream, copies);
}

void Recurrent::forward(const Call& call, const void* weights, float* top, float* state_after) {
  check(cudnnRNNForward(call.library, layer_.get(), CUDNN_FWD_MODE_TRAINING, kNoLengths,
                        bottom_.get(), call.bottom, top_.get(), top, state_.get(), call.state,
                        state_after, state_.get(), cell_state(call.state), cell_state(state_after),
                        weight_bytes_, weights, workspace_, call.workspace, reserve_, call.reserve),
        "cudnnRNNForward", about_);
}

void Recurrent::backward_bottom(const Call& call, const void* weights, const float* top,
                                const float* top_gradient, float* bottom_gradient) {
  check(cudnnRNNBackwardData_v8(call.library, layer_.get(), kNoLengths, top_.get(), top,
                                top_gradient, bottom_.get(), bottom_gradient, state_.get(),
                                call.state, nullptr, nullptr, state_.get(), cell_state(call.state),
                                nullptr, nullptr, weight_bytes_, weights, workspace_,
                                call.workspace, reserve_, call.reserve),
        "cudnnRNNBackwardData_v8", about_);
}

void Recurrent::backward_weights(const Call& call, cudaStream_t stream, const float* top,
                                 void* weight_gradients) {
  // cuDNN only offers to add to the gradients.
  check(cudaMemsetAsync(weight_gradients, 0, weight_bytes_, stream), "cudaMemsetAsync", about_);
  check(cudnnRNNBackwardWeights_v8(call.library, layer_.get(), CUDNN_WGRAD_MODE_ADD, kNoLengths,
                                   bottom_.get(), call.bottom, state_.get(), call.state, top_.get(),
                                   top, weight_bytes_, weight_gradients, workspace_, call.workspace,
                                   reserve_, call.reserve),
        "cudnnRNNBackwardWeights_v8", about_);
}

}  // namespace taut::cuda
