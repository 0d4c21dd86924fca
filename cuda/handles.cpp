#include "cuda/handles.hpp"

namespace taut::cuda {
namespace {

/// What `create`, named `call`, writes into the place that it is given.
template <class T, auto Destroy, class Create>
Handle<T, Destroy> made_by(Handle<T, Destroy>, const Create& create, const char* call) {
  T handle = nullptr;
  check(create(&handle), call);
  return Handle<T, Destroy>(handle);
}

}  // namespace

StreamHandle make_stream() {
  return made_by(
      StreamHandle(),
      [](cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking); },
      "cudaStreamCreateWithFlags");
}

EventHandle make_event() {
  return made_by(
      EventHandle(),
      [](cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDisableTiming); },
      "cudaEventCreateWithFlags");
}

CudnnHandle make_cudnn() {
  return made_by(CudnnHandle(), cudnnCreate, "cudnnCreate");
}

CublasLtHandle make_cublas_lt() {
  return made_by(CublasLtHandle(), cublasLtCreate, "cublasLtCreate");
}

TensorDescriptor make_tensor_descriptor() {
  return made_by(TensorDescriptor(), cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
}

FilterDescriptor make_filter_descriptor() {
  return made_by(FilterDescriptor(), cudnnCreateFilterDescriptor, "cudnnCreateFilterDescriptor");
}

ConvolutionDescriptor make_convolution_descriptor() {
  return made_by(ConvolutionDescriptor(), cudnnCreateConvolutionDescriptor,
                 "cudnnCreateConvolutionDescriptor");
}

RecurrentDescriptor make_recurrent_descriptor() {
  return made_by(RecurrentDescriptor(), cudnnCreateRNNDescriptor, "cudnnCreateRNNDescriptor");
}

SequenceDescriptor make_sequence_descriptor() {
  return made_by(SequenceDescriptor(), cudnnCreateRNNDataDescriptor,
                 "cudnnCreateRNNDataDescriptor");
}

DropoutDescriptor make_dropout_descriptor() {
  return made_by(DropoutDescriptor(), cudnnCreateDropoutDescriptor, "cudnnCreateDropoutDescriptor");
}

}  // namespace taut::cuda
