#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/twin/libraries/cudnn/convolution_algorithms.hpp"
#include "tests/twin/libraries/cudnn/convolution_problem.hpp"
#include "tests/twin/libraries/library_work.hpp"

namespace taut::twin::dnn {
namespace {

/// The call of one direction, operands named as in ConvolutionShape.
struct Call {
  const char* name;
  Direction direction;
  cudnnHandle_t handle;
  const void* alpha;
  const void* beta;
  Operand first, second, out;  // bytes are filled in
  int number;
  void* workspace;
  std::size_t workspace_bytes;
};

template <class Compute>
cudnnStatus_t queue(Call call, const Problem& problem, const Compute& compute) {
  const ConvolutionAlgorithm algorithm{call.direction, call.number, problem.math};
  if (call.alpha == nullptr || call.beta == nullptr || call.first.begin == nullptr ||
      call.second.begin == nullptr || call.out.begin == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("{}: a null", call.name));
  }
  if (!is_supported(algorithm, problem.shape, problem.stored)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  fmt::format("{}: algorithm {} does not have {}", call.name, call.number,
                              problem.shape.to_string()));
  }
  const std::size_t needed = workspace_of(algorithm, problem.shape, problem.stored);
  if (call.workspace_bytes < needed || (needed > 0 && call.workspace == nullptr)) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
                  fmt::format("{}: a workspace of {} bytes where algorithm {} needs {}", call.name,
                              call.workspace_bytes, call.number, needed));
  }
  Scaling scaling;
  std::memcpy(&scaling.alpha, call.alpha, sizeof scaling.alpha);
  std::memcpy(&scaling.beta, call.beta, sizeof scaling.beta);
  call.out.is_write = true;
  call.out.is_read = scaling.beta != 0;
  queue_work({.call = call.name,
              .about = problem.shape.to_string(),
              .stream = call.handle->stream,
              .device = call.handle->device,
              .operands = {call.first, call.second, call.out},
              .alignment = size_of(problem.stored),
              .workspace = call.workspace,
              .workspace_bytes = needed},
             [compute, scaling] { compute(scaling); });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace taut::twin::dnn

using namespace taut::twin;
using namespace taut::twin::dnn;

extern "C" {

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t bottom_is, const void* bottom,
                                      const cudnnFilterDescriptor_t weights_are,
                                      const void* weights,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t workspace_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t top_is, void* top) {
  constexpr const char* kCall = "cudnnConvolutionForward";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  Problem problem;
  const auto status = read_problem(kCall, bottom_is, weights_are, convolution, top_is, problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return queue({kCall,
                Direction::kForward,
                handle,
                alpha,
                beta,
                {"x", bottom, bottom_is->bytes()},
                {"w", weights, weights_are->bytes()},
                {"y", top, top_is->bytes()},
                algorithm,
                workspace,
                workspace_bytes},
               problem, [=](Scaling scaling) {
                 convolve(problem.shape, precision_of(problem), scaling, bottom, weights, top);
               });
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t weights_are,
    const void* weights, const cudnnTensorDescriptor_t top_is, const void* top_gradient,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* workspace, size_t workspace_bytes, const void* beta,
    const cudnnTensorDescriptor_t bottom_is, void* bottom_gradient) {
  constexpr const char* kCall = "cudnnConvolutionBackwardData";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  Problem problem;
  const auto status = read_problem(kCall, bottom_is, weights_are, convolution, top_is, problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return queue({kCall,
                Direction::kBottom,
                handle,
                alpha,
                beta,
                {"w", weights, weights_are->bytes()},
                {"dy", top_gradient, top_is->bytes()},
                {"dx", bottom_gradient, bottom_is->bytes()},
                algorithm,
                workspace,
                workspace_bytes},
               problem, [=](Scaling scaling) {
                 convolve_to_bottom(problem.shape, precision_of(problem), scaling, top_gradient,
                                    weights, bottom_gradient);
               });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t bottom_is,
    const void* bottom, const cudnnTensorDescriptor_t top_is, const void* top_gradient,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void* workspace, size_t workspace_bytes, const void* beta,
    const cudnnFilterDescriptor_t weights_are, void* weight_gradient) {
  constexpr const char* kCall = "cudnnConvolutionBackwardFilter";
  const Entry entry(kCall, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  Problem problem;
  const auto status = read_problem(kCall, bottom_is, weights_are, convolution, top_is, problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  // Sums that are added in place have no fixed order.
  const int first =
      is_deterministic(Direction::kWeights, algorithm)
          ? 0
          : static_cast<int>(random_number(kCall, static_cast<std::uint64_t>(problem.shape.n)));
  return queue({kCall,
                Direction::kWeights,
                handle,
                alpha,
                beta,
                {"x", bottom, bottom_is->bytes()},
                {"dy", top_gradient, top_is->bytes()},
                {"dw", weight_gradient, weights_are->bytes()},
                algorithm,
                workspace,
                workspace_bytes},
               problem, [=](Scaling scaling) {
                 convolve_to_weights(problem.shape, precision_of(problem), scaling, bottom,
                                     top_gradient, weight_gradient, first);
               });
}
}
