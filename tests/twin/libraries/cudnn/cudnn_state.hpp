#pragma once

#include <cudnn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/twin/libraries/arithmetic.hpp"

// What the twin's cuDNN keeps behind its handles and descriptors: the structures that cudnn.h
// declares.

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  std::atomic<bool> is_in_use{false};
};

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> extents;  // empty: not set yet
  std::vector<int> strides;

  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] bool is_packed() const;
};

struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t order = CUDNN_TENSOR_NCHW;
  std::array<int, 4> extents{};  // K, C, H, W
  bool is_set = false;

  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::size_t bytes() const;
};

struct cudnnConvolutionStruct {
  std::array<int, 2> pad{}, stride{1, 1}, dilation{1, 1};
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
  bool is_set = false;
};

struct cudnnDropoutStruct {
  float ratio = 0;
  bool is_set = false;
};

struct cudnnRNNDataStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  int steps = 0;  // 0: not set yet
  int streams = 0;
  int width = 0;
  std::vector<int> lengths;

  [[nodiscard]] std::size_t count() const;
};

struct cudnnRNNStruct {
  cudnnRNNMode_t mode = CUDNN_LSTM;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int inputs = 0;
  int hidden = 0;
  bool is_set = false;
};

namespace taut::twin::dnn {

[[nodiscard]] bool is_known(cudnnDataType_t type);
[[nodiscard]] Format format_of(cudnnDataType_t type);

/// Keeps what cudnnGetLastErrorString() says on this thread, and returns the status.
cudnnStatus_t refuse(cudnnStatus_t status, std::string why);

/// What a call is to fail with, as the test's order says.
[[nodiscard]] cudnnStatus_t faulted(const char* call);

/// The begin of a call that uses a handle: while it lasts no other thread may use the handle.
/// Reports   cudnn.handle-thread, cudnn.handle-device
class Entry {
 public:
  Entry(const char* call, cudnnHandle_t handle);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  /// CUDNN_STATUS_SUCCESS, or what the call returns at once.
  [[nodiscard]] cudnnStatus_t status() const { return status_; }

 private:
  cudnnHandle_t handle_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

}  // namespace taut::twin::dnn
