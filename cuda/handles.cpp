#include "cuda/handles.hpp"

namespace taut::cuda {
namespace {

// Sleeping and waking take longer than a small copy, so some 200 us of polling come first.
constexpr int kPolls = 256;

/// The handle that `create`, named `call`, writes.
template <class T, auto Destroy, class Create>
Handle<T, Destroy> create_handle(Handle<T, Destroy>, const Create& create, const char* call) {
  T handle = nullptr;
  check(create(&handle), call);
  return Handle<T, Destroy>(handle);
}

}  // namespace

StreamHandle make_stream() {
  return create_handle(
      StreamHandle(),
      [](cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking); },
      "cudaStreamCreateWithFlags");
}

EventHandle make_event() {
  return create_handle(
      EventHandle(),
      [](cudaEvent_t* event) {
        return cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventBlockingSync);
      },
      "cudaEventCreateWithFlags");
}

void wait_for(const EventHandle& event) {
  for (int poll = 0; poll < kPolls; ++poll) {
    if (has_passed(event)) return;
  }
  check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
}

bool has_passed(const EventHandle& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) {
    // Otherwise the check of the next launch would find it.
    (void)cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

CudnnHandle make_cudnn() {
  return create_handle(CudnnHandle(), cudnnCreate, "cudnnCreate");
}

CublasLtHandle make_cublas_lt() {
  return create_handle(CublasLtHandle(), cublasLtCreate, "cublasLtCreate");
}

TensorDescriptor make_tensor_descriptor() {
  return create_handle(TensorDescriptor(), cudnnCreateTensorDescriptor,
                       "cudnnCreateTensorDescriptor");
}

FilterDescriptor make_filter_descriptor() {
  return create_handle(FilterDescriptor(), cudnnCreateFilterDescriptor,
                       "cudnnCreateFilterDescriptor");
}

ConvolutionDescriptor make_convolution_descriptor() {
  return create_handle(ConvolutionDescriptor(), cudnnCreateConvolutionDescriptor,
                       "cudnnCreateConvolutionDescriptor");
}

RecurrentDescriptor make_recurrent_descriptor() {
  return create_handle(RecurrentDescriptor(), cudnnCreateRNNDescriptor, "cudnnCreateRNNDescriptor");
}

SequenceDescriptor make_sequence_descriptor() {
  return create_handle(SequenceDescriptor(), cudnnCreateRNNDataDescriptor,
                       "cudnnCreateRNNDataDescriptor");
}

DropoutDescriptor make_dropout_descriptor() {
  return create_handle(DropoutDescriptor(), cudnnCreateDropoutDescriptor,
                       "cudnnCreateDropoutDescriptor");
}

}  // namespace taut::cuda
