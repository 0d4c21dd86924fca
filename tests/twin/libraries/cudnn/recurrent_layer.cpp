#include "tests/twin/libraries/cudnn/recurrent_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tests/twin/stream_queue.hpp"

namespace taut::twin::dnn {
namespace {

constexpr int kMaxSteps = 65535;

}  // namespace

std::size_t reserve_bytes(const RecurrentShape& shape) {
  return kReserveHeadBytes + bytes_of(Kept::count_of(shape));
}
std::size_t workspace_bytes(const RecurrentShape& shape) {
  return bytes_of(shape.steps * shape.streams * shape.gates() * shape.hidden) + 512;
}

RecurrentShape shape_of(cudnnRNNDescriptor_t layer, cudnnRNNDataDescriptor_t data) {
  return {.mode = layer->mode,
          .bias = layer->bias,
          .steps = data == nullptr ? 0 : static_cast<std::size_t>(data->steps),
          .streams = data == nullptr ? 0 : static_cast<std::size_t>(data->streams),
          .inputs = static_cast<std::size_t>(layer->inputs),
          .hidden = static_cast<std::size_t>(layer->hidden),
          .factor = layer->math == CUDNN_FMA_MATH ? Format::kFloat32 : Format::kTf32};
}

}  // namespace taut::twin::dnn

using namespace taut::twin;
using namespace taut::twin::dnn;

extern "C" {

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int streams,
                                        int width, const int lengths[], void*) {
  constexpr const char* kCall = "cudnnSetRNNDataDescriptor";
  const cudnnStatus_t fault = faulted(kCall);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (data == nullptr || lengths == nullptr || std::min({steps, streams, width}) < 1 ||
      layout < CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED ||
      layout > CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: a null, a layout or a side", kCall));
  }
  const bool is_packed = layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  const std::vector<int> all(lengths, lengths + streams);
  const int least = is_packed ? 1 : 0;
  if (std::ranges::any_of(all, [&](int one) { return one < least || one > steps; }) ||
      (is_packed && !std::ranges::is_sorted(all, std::greater<>()))) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  fmt::format("{}: lengths beyond the longest, or packed and not falling", kCall));
  }
  const bool has_type = is_known(type) || type == CUDNN_DATA_DOUBLE;
  if (!has_type || steps > kMaxSteps) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, fmt::format("{}: a type, or {} steps", kCall, steps));
  }
  if (!is_packed || type != CUDNN_DATA_FLOAT || all.back() != steps) {
    report_violation("cudnn.not-emulated", fmt::format("{}: a layout, type or length", kCall));
  }
  *data = {type, layout, steps, streams, width, all};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t layer, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, int32_t inputs, int32_t hidden,
                                       int32_t projected, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  constexpr const char* kCall = "cudnnSetRNNDescriptor_v8";
  const cudnnStatus_t fault = faulted(kCall);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (layer == nullptr || std::min({inputs, hidden, projected, layers}) < 1 || flags > 1 ||
      algorithm >= CUDNN_RNN_ALGO_COUNT || math > CUDNN_FMA_MATH) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: a side below 1, or a mode", kCall));
  }
  const bool persists = algorithm != CUDNN_RNN_ALGO_STANDARD;
  if (projected > hidden || (projected < hidden && (mode != CUDNN_LSTM || persists)) ||
      (persists && bias != CUDNN_RNN_DOUBLE_BIAS)) {
    return refuse(
        CUDNN_STATUS_NOT_SUPPORTED,
        fmt::format("{}: a projection or a bias that the algorithm does not have", kCall));
  }
  const bool fits = (type == CUDNN_DATA_FLOAT && precision == CUDNN_DATA_FLOAT) ||
                    (type == CUDNN_DATA_DOUBLE && precision == CUDNN_DATA_DOUBLE) ||
                    (type == CUDNN_DATA_HALF &&
                     (precision == CUDNN_DATA_FLOAT || precision == CUDNN_DATA_HALF)) ||
                    (type == CUDNN_DATA_BFLOAT16 && precision == CUDNN_DATA_FLOAT);
  if (!fits) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  fmt::format("{}: a compute precision that the type does not have", kCall));
  }
  if (dropout != nullptr && !dropout->is_set) {
    report_violation("cudnn.descriptor-set",
                     fmt::format("{}: a dropout descriptor that was never set", kCall));
  }
  if (persists || mode == CUDNN_RNN_RELU || direction != CUDNN_UNIDIRECTIONAL ||
      input != CUDNN_LINEAR_INPUT || type != CUDNN_DATA_FLOAT || projected != hidden ||
      layers != 1 || flags != CUDNN_RNN_PADDED_IO_DISABLED) {
    report_violation("cudnn.not-emulated", fmt::format("{}: one of its modes", kCall));
  }
  *layer = {mode, bias, type, math, inputs, hidden, true};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t layer,
                                         size_t* bytes) {
  const Entry entry("cudnnGetRNNWeightSpaceSize", handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  if (layer == nullptr || !layer->is_set || bytes == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnGetRNNWeightSpaceSize: no layer");
  }
  *bytes = bytes_of(weight_places(shape_of(layer, nullptr)).count);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t layer,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t data,
                                        size_t* workspace, size_t* reserve) {
  const Entry entry("cudnnGetRNNTempSpaceSizes", handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  if (layer == nullptr || !layer->is_set || data == nullptr || data->steps == 0 ||
      workspace == nullptr || data->width != layer->inputs) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnGetRNNTempSpaceSizes: no layer, or no data of it");
  }
  const RecurrentShape shape = shape_of(layer, data);
  *workspace = workspace_bytes(shape);
  if (reserve != nullptr) *reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(shape) : 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t layer,
                                      int32_t pseudo_layer, size_t weight_bytes,
                                      const void* weights, int32_t linear,
                                      cudnnTensorDescriptor_t matrix_is, void** matrix,
                                      cudnnTensorDescriptor_t bias_is, void** bias) {
  constexpr const char* kCall = "cudnnGetRNNWeightParams";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  if (layer == nullptr || !layer->is_set || matrix_is == nullptr || matrix == nullptr ||
      bias_is == nullptr || bias == nullptr || weights == nullptr || pseudo_layer != 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: no layer, or a null", kCall));
  }
  const RecurrentShape shape = shape_of(layer, nullptr);
  const WeightPlaces places = weight_places(shape);
  if (linear < 0 || static_cast<std::size_t>(linear) >= places.parts.size() ||
      weight_bytes < bytes_of(places.count)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: linear layer {}", kCall, linear));
  }
  require_device_memory(kCall, "weightSpace", handle->device, weights, weight_bytes, sizeof(float));
  const WeightPlaces::Part part = places.parts[static_cast<std::size_t>(linear)];
  const bool is_input = static_cast<std::size_t>(linear) < shape.gates();
  const int rows = layer->hidden;
  const int columns = is_input ? layer->inputs : layer->hidden;
  auto* const base = const_cast<float*>(static_cast<const float*>(weights));
  *matrix = base + part.matrix;
  *matrix_is = {CUDNN_DATA_FLOAT, {1, rows, columns}, {rows * columns, columns, 1}};
  *bias = nullptr;
  *bias_is = {};
  if (part.bias == WeightPlaces::kNone) return CUDNN_STATUS_SUCCESS;
  *bias = base + part.bias;
  *bias_is = {CUDNN_DATA_FLOAT, {1, rows, 1}, {rows, 1, 1}};
  return CUDNN_STATUS_SUCCESS;
}
}
