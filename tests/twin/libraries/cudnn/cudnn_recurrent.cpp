#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/twin/libraries/cudnn/cudnn_state.hpp"
#include "tests/twin/libraries/cudnn/recurrent_layer.hpp"
#include "tests/twin/libraries/library_work.hpp"

namespace taut::twin::dnn {
namespace {

/// What is before the rest of a reserve space. Everything in it must still be so when it is
/// used.
struct ReserveHead {
  static constexpr std::uint64_t kMagic = 0x7414'CD99'5EED'0001;
  enum Stage : std::uint64_t { kForward = 1, kData = 2 };
  std::uint64_t magic = kMagic;
  std::uint64_t stage = kForward;
  std::uint64_t layer = 0;    // of the shape
  std::uint64_t inputs = 0;   // of x and hx
  std::uint64_t outputs = 0;  // of y
  std::uint64_t weights = 0;  // of the weight space
  std::uint64_t rest = 0;     // of the bytes behind this
};
static_assert(sizeof(ReserveHead) <= kReserveHeadBytes);

std::uint64_t layer_sum(const RecurrentShape& shape) {
  const std::uint64_t sides[] = {static_cast<std::uint64_t>(shape.mode),
                                 static_cast<std::uint64_t>(shape.bias),
                                 shape.steps,
                                 shape.streams,
                                 shape.inputs,
                                 shape.hidden,
                                 static_cast<std::uint64_t>(shape.factor)};
  return checksum(sides, sizeof sides);
}

std::uint64_t input_sum(const RecurrentShape& shape, const float* x, const float* hx) {
  const std::uint64_t sum = checksum(x, bytes_of(shape.steps * shape.streams * shape.inputs));
  return hx == nullptr ? sum : sum * 31 + checksum(hx, bytes_of(shape.streams * shape.hidden));
}

std::uint64_t output_sum(const RecurrentShape& shape, const float* y) {
  return checksum(y, bytes_of(shape.steps * shape.streams * shape.hidden));
}

/// Of the matrices and biases: what is between them is nothing.
std::uint64_t weight_sum(const RecurrentShape& shape, const WeightPlaces& places,
                         const float* weights) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < places.parts.size(); ++i) {
    const std::size_t width = i < shape.gates() ? shape.inputs : shape.hidden;
    const WeightPlaces::Part& part = places.parts[i];
    sum = sum * 31 + checksum(weights + part.matrix, bytes_of(shape.hidden * width));
    if (part.bias == WeightPlaces::kNone) continue;
    sum = sum * 31 + checksum(weights + part.bias, bytes_of(shape.hidden));
  }
  return sum;
}

ReserveHead read_head(const void* reserve) {
  ReserveHead head;
  std::memcpy(&head, reserve, sizeof head);
  return head;
}
void write_head(void* reserve, ReserveHead head, std::size_t bytes) {
  head.rest = checksum(static_cast<const std::byte*>(reserve) + kReserveHeadBytes,
                       bytes - kReserveHeadBytes);
  std::memcpy(reserve, &head, sizeof head);
}
Kept kept_in(const RecurrentShape& shape, void* reserve) {
  return Kept::at(shape,
                  reinterpret_cast<float*>(static_cast<std::byte*>(reserve) + kReserveHeadBytes));
}

/// Holds a reserve space to what the call before left in it.
ReserveHead check_reserve(const char* call, const RecurrentShape& shape, const void* reserve,
                          ReserveHead::Stage stage) {
  const ReserveHead head = read_head(reserve);
  const auto complain = [&](const char* rule, const char* why) {
    report_violation(rule, fmt::format("{} ({}): {}", call, shape.to_string(), why));
  };
  if (head.magic != ReserveHead::kMagic || head.layer != layer_sum(shape)) {
    complain("cudnn.rnn-reserve", "the reserve space is not a forward's of this layer");
  }
  if (head.stage != stage) {
    complain("cudnn.rnn-order", stage == ReserveHead::kData
                                    ? "cudnnRNNBackwardData_v8 has not been called before"
                                    : "cudnnRNNForward has not been called before");
  }
  const std::size_t bytes = reserve_bytes(shape);
  if (head.rest != checksum(static_cast<const std::byte*>(reserve) + kReserveHeadBytes,
                            bytes - kReserveHeadBytes)) {
    complain("cudnn.rnn-reserve", "the reserve space was changed since");
  }
  return head;
}

void hold_same(const char* call, const RecurrentShape& shape, const char* what,
               std::uint64_t forwards, std::uint64_t now) {
  if (forwards == now) return;
  report_violation("cudnn.rnn-data", fmt::format("{} ({}): {}: not what the forward had", call,
                                                 shape.to_string(), what));
}

/// What the three calls get in common.
struct Call {
  const char* name;
  cudnnHandle_t handle;
  cudnnRNNDescriptor_t layer;
  const std::int32_t* lengths;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t h, c;  // c is null where the call has none
  std::size_t weight_bytes;
  void* workspace;
  std::size_t workspace_bytes;
  void* reserve;
  std::size_t reserve_bytes;
};

bool is_state(cudnnTensorDescriptor_t tensor, const RecurrentShape& shape) {
  return tensor != nullptr && tensor->type == CUDNN_DATA_FLOAT && tensor->extents.size() == 3 &&
         tensor->extents[0] == 1 && tensor->extents[1] == static_cast<int>(shape.streams) &&
         tensor->extents[2] == static_cast<int>(shape.hidden) && tensor->is_packed();
}

cudnnStatus_t check_call(const Call& call, RecurrentShape& shape) {
  const auto wrong = [&](cudnnStatus_t status, const char* why) {
    return refuse(status, fmt::format("{}: {}", call.name, why));
  };
  if (call.layer == nullptr || call.x == nullptr || call.y == nullptr) {
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
  }
  if (!call.layer->is_set || call.x->steps == 0 || call.y->steps == 0) {
    report_violation("cudnn.descriptor-set",
                     fmt::format("{}: a descriptor that was created and never set", call.name));
  }
  shape = shape_of(call.layer, call.x);
  const bool same = call.x->lengths == call.y->lengths && call.x->steps == call.y->steps &&
                    call.x->streams == call.y->streams && call.x->type == call.layer->type &&
                    call.y->type == call.layer->type && call.x->layout == call.y->layout;
  if (!same || call.x->width != call.layer->inputs || call.y->width != call.layer->hidden) {
    return wrong(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "sequences that are not the layer's");
  }
  if (!is_state(call.h, shape) ||
      (call.c != nullptr && shape.mode == CUDNN_LSTM && !is_state(call.c, shape))) {
    return wrong(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a state that is not the layer's");
  }
  if (call.lengths != nullptr) {
    report_violation("cudnn.not-emulated", fmt::format("{}: devSeqLengths", call.name));
  }
  if (call.weight_bytes < bytes_of(weight_places(shape).count)) {
    return wrong(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "a weight space that is too small");
  }
  if (call.workspace_bytes < workspace_bytes(shape) || call.workspace == nullptr) {
    return wrong(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "a workspace that is too small");
  }
  if (call.reserve_bytes < reserve_bytes(shape) || call.reserve == nullptr) {
    return wrong(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "a reserve space that is too small");
  }
  return CUDNN_STATUS_SUCCESS;
}

/// The operands that are there, and the reserve space behind them.
Work work_of(const Call& call, const RecurrentShape& shape, std::vector<Operand> operands) {
  operands.push_back({"the reserve space", call.reserve, reserve_bytes(shape), true, true});
  std::erase_if(operands, [](const Operand& operand) { return operand.begin == nullptr; });
  return {.call = call.name,
          .about = shape.to_string(),
          .stream = call.handle->stream,
          .device = call.handle->device,
          .operands = std::move(operands),
          .alignment = sizeof(float),
          .workspace = call.workspace,
          .workspace_bytes = workspace_bytes(shape)};
}

template <class T>
auto* floats(T* pointer) {
  if constexpr (std::is_const_v<T>) {
    return static_cast<const float*>(pointer);
  } else {
    return static_cast<float*>(pointer);
  }
}

}  // namespace
}  // namespace taut::twin::dnn

using namespace taut::twin;
using namespace taut::twin::dnn;

extern "C" {

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t layer,
                              cudnnForwardMode_t mode, const int32_t lengths[],
                              cudnnRNNDataDescriptor_t x_is, const void* x,
                              cudnnRNNDataDescriptor_t y_is, void* y, cudnnTensorDescriptor_t h_is,
                              const void* hx, void* hy, cudnnTensorDescriptor_t c_is,
                              const void* cx, void* cy, size_t weight_bytes, const void* weights,
                              size_t workspace_size, void* workspace, size_t reserve_size,
                              void* reserve) {
  constexpr const char* kCall = "cudnnRNNForward";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  const Call call{kCall, handle,       layer,     lengths,        x_is,    y_is,        h_is,
                  c_is,  weight_bytes, workspace, workspace_size, reserve, reserve_size};
  RecurrentShape shape;
  const cudnnStatus_t status = check_call(call, shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (mode != CUDNN_FWD_MODE_TRAINING) {
    report_violation("cudnn.not-emulated", fmt::format("{}: not for training", kCall));
  }
  if (x == nullptr || y == nullptr || weights == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("{}: a null", kCall));
  }
  const WeightPlaces places = weight_places(shape);
  const bool has_cells = shape.mode == CUDNN_LSTM;
  const std::size_t state = bytes_of(shape.streams * shape.hidden);
  const ForwardOperands operands{
      .x = floats(x),
      .hx = floats(hx),
      .cx = has_cells ? floats(cx) : nullptr,
      .weights = floats(weights),
      .y = floats(y),
      .hy = floats(hy),
      .cy = has_cells ? floats(cy) : nullptr,
  };
  queue_work(work_of(call, shape,
                     {{"x", x, bytes_of(x_is->count())},
                      {"hx", hx, state},
                      {"cx", operands.cx, state},
                      {"the weight space", weights, bytes_of(places.count)},
                      {"y", y, bytes_of(y_is->count()), true, false},
                      {"hy", hy, state, true, false},
                      {"cy", operands.cy, state, true, false}}),
             [=] {
               const std::size_t bytes = reserve_bytes(shape);
               poison(reserve, bytes);
               const Kept kept = kept_in(shape, reserve);
               forward(shape, places, operands, kept);
               ReserveHead head;
               head.layer = layer_sum(shape);
               head.inputs = input_sum(shape, operands.x, operands.hx);
               head.outputs = output_sum(shape, operands.y);
               head.weights = weight_sum(shape, places, operands.weights);
               write_head(reserve, head, bytes);
             });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t layer,
                                      const int32_t lengths[], cudnnRNNDataDescriptor_t y_is,
                                      const void* y, const void* dy, cudnnRNNDataDescriptor_t x_is,
                                      void* dx, cudnnTensorDescriptor_t h_is, const void* hx,
                                      const void* dhy, void* dhx, cudnnTensorDescriptor_t c_is,
                                      const void* cx, const void* dcy, void* dcx,
                                      size_t weight_bytes, const void* weights,
                                      size_t workspace_size, void* workspace, size_t reserve_size,
                                      void* reserve) {
  constexpr const char* kCall = "cudnnRNNBackwardData_v8";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  const Call call{kCall, handle,       layer,     lengths,        x_is,    y_is,        h_is,
                  c_is,  weight_bytes, workspace, workspace_size, reserve, reserve_size};
  RecurrentShape shape;
  const cudnnStatus_t status = check_call(call, shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (y == nullptr || dy == nullptr || dx == nullptr || weights == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("{}: a null", kCall));
  }
  const WeightPlaces places = weight_places(shape);
  const bool has_cells = shape.mode == CUDNN_LSTM;
  const std::size_t state = bytes_of(shape.streams * shape.hidden);
  const BackwardOperands operands{
      .y = floats(y),
      .dy = floats(dy),
      .hx = floats(hx),
      .cx = has_cells ? floats(cx) : nullptr,
      .dhy = floats(dhy),
      .dcy = has_cells ? floats(dcy) : nullptr,
      .weights = floats(weights),
      .dx = floats(dx),
      .dhx = floats(dhx),
      .dcx = has_cells ? floats(dcx) : nullptr,
  };
  queue_work(work_of(call, shape,
                     {{"y", y, bytes_of(y_is->count())},
                      {"dy", dy, bytes_of(y_is->count())},
                      {"hx", hx, state},
                      {"cx", operands.cx, state},
                      {"dhy", dhy, state},
                      {"dcy", operands.dcy, state},
                      {"the weight space", weights, bytes_of(places.count)},
                      {"dx", dx, bytes_of(x_is->count()), true, false},
                      {"dhx", dhx, state, true, false},
                      {"dcx", operands.dcx, state, true, false}}),
             [=] {
               ReserveHead head = check_reserve(kCall, shape, reserve, ReserveHead::kForward);
               hold_same(kCall, shape, "the weights", head.weights,
                         weight_sum(shape, places, operands.weights));
               hold_same(kCall, shape, "y", head.outputs, output_sum(shape, operands.y));
               backward_data(shape, places, operands, kept_in(shape, reserve));
               head.stage = ReserveHead::kData;
               write_head(reserve, head, reserve_bytes(shape));
             });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t layer,
                                         cudnnWgradMode_t mode, const int32_t lengths[],
                                         cudnnRNNDataDescriptor_t x_is, const void* x,
                                         cudnnTensorDescriptor_t h_is, const void* hx,
                                         cudnnRNNDataDescriptor_t y_is, const void* y,
                                         size_t weight_bytes, void* weight_gradients,
                                         size_t workspace_size, void* workspace,
                                         size_t reserve_size, void* reserve) {
  constexpr const char* kCall = "cudnnRNNBackwardWeights_v8";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  const Call call{kCall,   handle,       layer,     lengths,        x_is,    y_is,        h_is,
                  nullptr, weight_bytes, workspace, workspace_size, reserve, reserve_size};
  RecurrentShape shape;
  const cudnnStatus_t status = check_call(call, shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (mode != CUDNN_WGRAD_MODE_ADD) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, fmt::format("{}: a mode that does not add", kCall));
  }
  if (x == nullptr || y == nullptr || weight_gradients == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("{}: a null", kCall));
  }
  const WeightPlaces places = weight_places(shape);
  queue_work(
      work_of(call, shape,
              {{"x", x, bytes_of(x_is->count())},
               {"hx", hx, bytes_of(shape.streams * shape.hidden)},
               {"y", y, bytes_of(y_is->count())},
               {"the weights' gradients", weight_gradients, bytes_of(places.count), true, true}}),
      [=] {
        const ReserveHead head = check_reserve(kCall, shape, reserve, ReserveHead::kData);
        hold_same(kCall, shape, "x or hx", head.inputs, input_sum(shape, floats(x), floats(hx)));
        hold_same(kCall, shape, "y", head.outputs, output_sum(shape, floats(y)));
        backward_weights(shape, places, floats(x), floats(hx), floats(y), kept_in(shape, reserve),
                         floats(weight_gradients));
      });
  return CUDNN_STATUS_SUCCESS;
}
}
