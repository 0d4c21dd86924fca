#include "tests/twin/libraries/cudnn/convolution_problem.hpp"

#include <fmt/format.h>

#include "tests/twin/stream_queue.hpp"

namespace taut::twin::dnn {
namespace {

int top_side(int bottom, int pad, int kernel, int stride, int dilation) {
  return (bottom + 2 * pad - ((kernel - 1) * dilation + 1)) / stride + 1;
}

}  // namespace

Precision precision_of(const Problem& problem) {
  if (problem.stored != Format::kFloat32) return {problem.stored, problem.stored};
  return {problem.stored, problem.math == CUDNN_FMA_MATH ? Format::kFloat32 : Format::kTf32};
}

cudnnStatus_t read_problem(const char* call, cudnnTensorDescriptor_t bottom,
                           cudnnFilterDescriptor_t weights,
                           cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t top,
                           Problem& problem) {
  if (bottom == nullptr || weights == nullptr || convolution == nullptr || top == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("{}: no descriptor", call));
  }
  if (bottom->extents.empty() || top->extents.empty() || !weights->is_set || !convolution->is_set) {
    report_violation("cudnn.descriptor-set",
                     fmt::format("{}: a descriptor that was created and never set", call));
  }
  if (bottom->extents.size() != 4 || top->extents.size() != 4) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  fmt::format("{}: not 4-dimensional", call));
  }
  if (bottom->type != weights->type || bottom->type != top->type) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: operands of different types", call));
  }
  if (!is_known(bottom->type) || convolution->compute != CUDNN_DATA_FLOAT ||
      convolution->mode != CUDNN_CROSS_CORRELATION || weights->order != CUDNN_TENSOR_NCHW ||
      !bottom->is_packed() || !top->is_packed()) {
    report_violation("cudnn.not-emulated",
                     fmt::format("{}: a type, order or mode that the twin does not have", call));
  }
  ConvolutionShape& shape = problem.shape;
  shape = {.n = bottom->extents[0],
           .c = bottom->extents[1],
           .h = bottom->extents[2],
           .w = bottom->extents[3],
           .top_c = top->extents[1],
           .top_h = top->extents[2],
           .top_w = top->extents[3],
           .kernel_h = weights->extents[2],
           .kernel_w = weights->extents[3],
           .pad_h = convolution->pad[0],
           .pad_w = convolution->pad[1],
           .stride_h = convolution->stride[0],
           .stride_w = convolution->stride[1],
           .dilation_h = convolution->dilation[0],
           .dilation_w = convolution->dilation[1],
           .groups = convolution->groups};
  const bool fits =
      top->extents[0] == shape.n && weights->extents[0] == shape.top_c &&
      weights->extents[1] * shape.groups == shape.c && shape.top_c % shape.groups == 0 &&
      shape.top_h ==
          top_side(shape.h, shape.pad_h, shape.kernel_h, shape.stride_h, shape.dilation_h) &&
      shape.top_w ==
          top_side(shape.w, shape.pad_w, shape.kernel_w, shape.stride_w, shape.dilation_w);
  if (!fits) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  fmt::format("{}: {} does not make a top of {}x{}x{}x{}", call, shape.to_string(),
                              top->extents[0], shape.top_c, shape.top_h, shape.top_w));
  }
  problem.stored = format_of(bottom->type);
  problem.math = convolution->math;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace taut::twin::dnn
