#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <utility>

#include "cuda/error.hpp"

// Owners of the libraries' handles: created in the constructor, destroyed in the destructor.
namespace taut::cuda {

/// Owns one handle of type T; Destroy destroys it. Moves, never copies.
template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    // The status of a destroy call is ignored: it could not be handled.
    if (handle_ != nullptr) (void)Destroy(handle_);
  }
  [[nodiscard]] T get() const { return handle_; }
  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }

 private:
  T handle_ = nullptr;
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using CudnnHandle = Handle<cudnnHandle_t, cudnnDestroy>;
using TensorDescriptor = Handle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Handle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Handle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;
using RecurrentDescriptor = Handle<cudnnRNNDescriptor_t, cudnnDestroyRNNDescriptor>;
using SequenceDescriptor = Handle<cudnnRNNDataDescriptor_t, cudnnDestroyRNNDataDescriptor>;
using DropoutDescriptor = Handle<cudnnDropoutDescriptor_t, cudnnDestroyDropoutDescriptor>;
using CublasLtHandle = Handle<cublasLtHandle_t, cublasLtDestroy>;
using MatmulDescriptor = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using MatmulPreference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// A stream that does not wait for the legacy default stream.
[[nodiscard]] StreamHandle make_stream();
/// An event without timing, which is cheaper; a thread that waits long for it sleeps.
[[nodiscard]] EventHandle make_event();
/// Whether the stream has reached the event; the host does not wait. Errors: DeviceError.
[[nodiscard]] bool has_passed(const EventHandle& event);
/// Blocks the host until the stream has reached the event. Errors: DeviceError.
void wait_for(const EventHandle& event);
[[nodiscard]] CudnnHandle make_cudnn();
[[nodiscard]] CublasLtHandle make_cublas_lt();
[[nodiscard]] TensorDescriptor make_tensor_descriptor();
[[nodiscard]] FilterDescriptor make_filter_descriptor();
[[nodiscard]] ConvolutionDescriptor make_convolution_descriptor();
[[nodiscard]] RecurrentDescriptor make_recurrent_descriptor();
[[nodiscard]] SequenceDescriptor make_sequence_descriptor();
[[nodiscard]] DropoutDescriptor make_dropout_descriptor();

}  // namespace taut::cuda
