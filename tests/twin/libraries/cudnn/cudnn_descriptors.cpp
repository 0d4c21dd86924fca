#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "tests/twin/libraries/cudnn/cudnn_state.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin::dnn {
namespace {

std::size_t product_of(std::span<const int> extents) {
  return std::accumulate(
      extents.begin(), extents.end(), std::size_t{1},
      [](std::size_t product, int side) { return product * static_cast<std::size_t>(side); });
}

bool has_type(cudnnDataType_t type) {
  return type >= CUDNN_DATA_FLOAT && type <= CUDNN_DATA_FAST_FLOAT_FOR_FP8;
}

template <class Struct>
cudnnStatus_t create(const char* call, Struct** into) {
  const cudnnStatus_t fault = faulted(call);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (into == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, call);
  *into = new Struct;
  return CUDNN_STATUS_SUCCESS;
}

template <class Struct>
cudnnStatus_t destroy(Struct* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

/// Extents of a tensor: positive, and altogether fewer than 2^31 elements.
cudnnStatus_t check_extents(const char* call, std::span<const int> extents) {
  std::uint64_t count = 1;
  for (const int extent : extents) {
    if (extent <= 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: an extent of {}", call, extent));
    }
    count *= static_cast<std::uint64_t>(extent);
    if (count > std::numeric_limits<int>::max()) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                    fmt::format("{}: a tensor of 2^31 elements or more", call));
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

bool is_known(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

Format format_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return Format::kFloat16;
  return type == CUDNN_DATA_BFLOAT16 ? Format::kBfloat16 : Format::kFloat32;
}

}  // namespace taut::twin::dnn

using namespace taut::twin;
using namespace taut::twin::dnn;

std::size_t cudnnTensorStruct::count() const {
  return product_of(extents);
}
std::size_t cudnnTensorStruct::bytes() const {
  return count() * size_of(format_of(type));
}
bool cudnnTensorStruct::is_packed() const {
  int stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (extents[i] != 1 && strides[i] != stride) return false;
    stride *= extents[i];
  }
  return true;
}
std::size_t cudnnFilterStruct::count() const {
  return product_of(extents);
}
std::size_t cudnnFilterStruct::bytes() const {
  return count() * size_of(format_of(type));
}
std::size_t cudnnRNNDataStruct::count() const {
  return static_cast<std::size_t>(steps) * static_cast<std::size_t>(streams) *
         static_cast<std::size_t>(width);
}

extern "C" {

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* into) {
  return create("cudnnCreateTensorDescriptor", into);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* into) {
  return create("cudnnCreateFilterDescriptor", into);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* into) {
  return create("cudnnCreateConvolutionDescriptor", into);
}
cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* into) {
  return create("cudnnCreateDropoutDescriptor", into);
}
cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* into) {
  return create("cudnnCreateRNNDescriptor", into);
}
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* into) {
  return create("cudnnCreateRNNDataDescriptor", into);
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor) {
  return destroy(descriptor);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t order,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  constexpr const char* kCall = "cudnnSetTensor4dDescriptor";
  const cudnnStatus_t fault = faulted(kCall);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (tensor == nullptr || !has_type(type) || order < CUDNN_TENSOR_NCHW ||
      order > CUDNN_TENSOR_NCHW_VECT_C) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: no such order or type", kCall));
  }
  const std::array extents{n, c, h, w};
  const cudnnStatus_t status = check_extents(kCall, extents);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (order != CUDNN_TENSOR_NCHW) {
    report_violation("cudnn.not-emulated", fmt::format("{}: another order than NCHW", kCall));
  }
  tensor->type = type;
  tensor->extents.assign(extents.begin(), extents.end());
  tensor->strides = {c * h * w, h * w, w, 1};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int dimensions, const int extents[], const int strides[]) {
  constexpr const char* kCall = "cudnnSetTensorNdDescriptor";
  const cudnnStatus_t fault = faulted(kCall);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (tensor == nullptr || !has_type(type) || extents == nullptr || strides == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: null, or no such type", kCall));
  }
  if (dimensions < 2) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: {} dimensions", kCall, dimensions));
  }
  if (dimensions > CUDNN_DIM_MAX) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, fmt::format("{}: {} dimensions", kCall, dimensions));
  }
  const std::span all(extents, static_cast<std::size_t>(dimensions));
  const cudnnStatus_t status = check_extents(kCall, all);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  tensor->type = type;
  tensor->extents.assign(all.begin(), all.end());
  tensor->strides.assign(strides, strides + dimensions);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t order, int k, int c, int h, int w) {
  constexpr const char* kCall = "cudnnSetFilter4dDescriptor";
  const cudnnStatus_t fault = faulted(kCall);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (filter == nullptr || !has_type(type) || std::min({k, c, h, w}) <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  fmt::format("{}: no such type, or an extent below 1", kCall));
  }
  filter->type = type;
  filter->order = order;
  filter->extents = {k, c, h, w};
  filter->is_set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  constexpr const char* kCall = "cudnnSetConvolution2dDescriptor";
  const cudnnStatus_t fault = faulted(kCall);
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  const bool has_mode = mode == CUDNN_CONVOLUTION || mode == CUDNN_CROSS_CORRELATION;
  const bool has_compute = compute == CUDNN_DATA_FLOAT || compute == CUDNN_DATA_DOUBLE ||
                           compute == CUDNN_DATA_HALF || compute == CUDNN_DATA_INT32;
  if (convolution == nullptr || std::min(pad_h, pad_w) < 0 ||
      std::min({stride_h, stride_w, dilation_h, dilation_w}) < 1 || !has_mode || !has_compute) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: a padding below 0, a stride or "
                                                      "dilation below 1, a mode or a type",
                                                      kCall));
  }
  convolution->pad = {pad_h, pad_w};
  convolution->stride = {stride_h, stride_w};
  convolution->dilation = {dilation_h, dilation_w};
  convolution->mode = mode;
  convolution->compute = compute;
  convolution->is_set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  const cudnnStatus_t fault = faulted("cudnnSetConvolutionGroupCount");
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (convolution == nullptr || groups < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  fmt::format("cudnnSetConvolutionGroupCount: {} groups", groups));
  }
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math) {
  const cudnnStatus_t fault = faulted("cudnnSetConvolutionMathType");
  if (fault != CUDNN_STATUS_SUCCESS) return fault;
  if (convolution == nullptr || math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnSetConvolutionMathType: no such type");
  }
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                        float ratio, void* states, size_t bytes,
                                        unsigned long long) {
  const Entry entry("cudnnSetDropoutDescriptor", handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  if (dropout == nullptr || !(ratio >= 0 && ratio <= 1)) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  fmt::format("cudnnSetDropoutDescriptor: a ratio of {}", ratio));
  }
  if (ratio > 0 || states != nullptr || bytes > 0) {
    report_violation("cudnn.not-emulated", "cudnnSetDropoutDescriptor: a dropout that drops");
  }
  dropout->ratio = ratio;
  dropout->is_set = true;
  return CUDNN_STATUS_SUCCESS;
}
}
