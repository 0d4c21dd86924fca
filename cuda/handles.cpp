#include "cuda/handles.hpp"

namespace taut::cuda {

StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamHandle(stream);
}

EventHandle make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return EventHandle(event);
}

CudnnHandle make_cudnn() {
  cudnnHandle_t handle = nullptr;
  check(cudnnCreate(&handle), "cudnnCreate");
  return CudnnHandle(handle);
}

CublasLtHandle make_cublas_lt() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  return CublasLtHandle(handle);
}

TensorDescriptor make_tensor_descriptor() {
  cudnnTensorDescriptor_t descriptor = nullptr;
  check(cudnnCreateTensorDescriptor(&descriptor), "cudnnCreateTensorDescriptor");
  return TensorDescriptor(descriptor);
}

FilterDescriptor make_filter_descriptor() {
  cudnnFilterDescriptor_t descriptor = nullptr;
  check(cudnnCreateFilterDescriptor(&descriptor), "cudnnCreateFilterDescriptor");
  return FilterDescriptor(descriptor);
}

ConvolutionDescriptor make_convolution_descriptor() {
  cudnnConvolutionDescriptor_t descriptor = nullptr;
  check(cudnnCreateConvolutionDescriptor(&descriptor), "cudnnCreateConvolutionDescriptor");
  return ConvolutionDescriptor(descriptor);
}

}  // namespace taut::cuda
