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

template <class Performance>
int answer(const std::vector<Candidate>& candidates, int count, Performance* results) {
  const int kept = std::min(count, static_cast<int>(candidates.size()));
  for (int i = 0; i < kept; ++i) {
    const Candidate& candidate = candidates[static_cast<std::size_t>(i)];
    results[i] = {};
    results[i].algo = static_cast<decltype(results[i].algo)>(candidate.number);
    results[i].status = candidate.status;
    results[i].time = candidate.time;
    results[i].memory = candidate.memory;
    results[i].determinism = candidate.determinism;
    results[i].mathType = candidate.math;
  }
  return kept;
}

/// Measures: takes memory for the operands and each workspace for itself, as cudnnFind* do.
cudnnStatus_t measure(const char* call, cudnnHandle_t handle, const Problem& problem,
                      std::vector<Candidate>& candidates) {
  if (!may_call_unsafely(call)) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED,
                  fmt::format("{} allocates and waits: not while a stream is captured", call));
  }
  const ConvolutionShape& shape = problem.shape;
  const std::size_t size = size_of(problem.stored);
  const std::size_t operands =
      (shape.bottom_count() + shape.top_count() + shape.weight_count()) * size;
  void* const own = allocate_device_memory(handle->device, operands, call);
  if (own == nullptr) {
    return refuse(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                  fmt::format("{}: no {} bytes for the operands", call, operands));
  }
  for (Candidate& candidate : candidates) {
    if (candidate.status != CUDNN_STATUS_SUCCESS || candidate.memory == 0) continue;
    void* const workspace = allocate_device_memory(handle->device, candidate.memory, call);
    if (workspace == nullptr) {
      candidate.status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
      candidate.time = -1;
      continue;
    }
    release_device_memory(workspace);
  }
  release_device_memory(own);
  std::stable_partition(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.status == CUDNN_STATUS_SUCCESS;
  });
  return finish(handle->stream) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                               : CUDNN_STATUS_EXECUTION_FAILED;
}

template <class Performance>
cudnnStatus_t search(const char* call, Direction direction, bool measures, cudnnHandle_t handle,
                     cudnnTensorDescriptor_t bottom, cudnnFilterDescriptor_t weights,
                     cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t top,
                     int count, int* found, Performance* results) {
  const Entry entry(call, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  if (found == nullptr || results == nullptr || count < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, fmt::format("{}: no place for an answer", call));
  }
  Problem problem;
  cudnnStatus_t status = read_problem(call, bottom, weights, convolution, top, problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  auto candidates = candidates_of(direction, problem.shape, problem.stored, problem.math);
  if (measures) status = measure(call, handle, problem, candidates);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  *found = answer(candidates, count, results);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ask_workspace(const char* call, Direction direction, cudnnHandle_t handle,
                            cudnnTensorDescriptor_t bottom, cudnnFilterDescriptor_t weights,
                            cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t top,
                            int number, std::size_t* bytes) {
  const Entry entry(call, handle);
  if (entry.status() != CUDNN_STATUS_SUCCESS) return entry.status();
  if (bytes == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, call);
  Problem problem;
  const cudnnStatus_t status = read_problem(call, bottom, weights, convolution, top, problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const ConvolutionAlgorithm algorithm{direction, number, problem.math};
  if (!is_supported(algorithm, problem.shape, problem.stored)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, fmt::format("{}: algorithm {} does not have {}", call,
                                                          number, problem.shape.to_string()));
  }
  *bytes = workspace_of(algorithm, problem.shape, problem.stored);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace taut::twin::dnn

using namespace taut::twin;
using namespace taut::twin::dnn;

extern "C" {

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t handle,
                                                   const cudnnTensorDescriptor_t bottom,
                                                   const cudnnFilterDescriptor_t weights,
                                                   const cudnnConvolutionDescriptor_t convolution,
                                                   const cudnnTensorDescriptor_t top,
                                                   const int count, int* found,
                                                   cudnnConvolutionFwdAlgoPerf_t* results) {
  return search("cudnnFindConvolutionForwardAlgorithm", Direction::kForward, true, handle, bottom,
                weights, convolution, top, count, found, results);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle,
                                                     const cudnnTensorDescriptor_t bottom,
                                                     const cudnnFilterDescriptor_t weights,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t top,
                                                     const int count, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return search("cudnnGetConvolutionForwardAlgorithm_v7", Direction::kForward, false, handle,
                bottom, weights, convolution, top, count, found, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t weights, const cudnnTensorDescriptor_t top,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t bottom,
    const int count, int* found, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return search("cudnnFindConvolutionBackwardDataAlgorithm", Direction::kBottom, true, handle,
                bottom, weights, convolution, top, count, found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t weights, const cudnnTensorDescriptor_t top,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t bottom,
    const int count, int* found, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return search("cudnnGetConvolutionBackwardDataAlgorithm_v7", Direction::kBottom, false, handle,
                bottom, weights, convolution, top, count, found, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t bottom, const cudnnTensorDescriptor_t top,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t weights,
    const int count, int* found, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return search("cudnnFindConvolutionBackwardFilterAlgorithm", Direction::kWeights, true, handle,
                bottom, weights, convolution, top, count, found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t bottom, const cudnnTensorDescriptor_t top,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t weights,
    const int count, int* found, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return search("cudnnGetConvolutionBackwardFilterAlgorithm_v7", Direction::kWeights, false, handle,
                bottom, weights, convolution, top, count, found, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t bottom,
    const cudnnFilterDescriptor_t weights, const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t top, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return ask_workspace("cudnnGetConvolutionForwardWorkspaceSize", Direction::kForward, handle,
                       bottom, weights, convolution, top, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t weights, const cudnnTensorDescriptor_t top,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t bottom,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return ask_workspace("cudnnGetConvolutionBackwardDataWorkspaceSize", Direction::kBottom, handle,
                       bottom, weights, convolution, top, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t bottom, const cudnnTensorDescriptor_t top,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t weights,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return ask_workspace("cudnnGetConvolutionBackwardFilterWorkspaceSize", Direction::kWeights,
                       handle, bottom, weights, convolution, top, algorithm, bytes);
}
}
