#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "cuda/convolution_key.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {

/// An algorithm of cuDNN's, as it was searched for one direction of one convolution.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t workspace = 0;
};
struct ConvolutionChoices {
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdDataAlgo_t> bottom;
  Choice<cudnnConvolutionBwdFilterAlgo_t> weights;
};

/// The shapes of a convolution as cuDNN describes them. Images and weights lie as N, C, H, W, one
/// after the other. A convolution descriptor for each direction: how they multiply may differ.
struct ConvolutionShapes {
  /// Errors    std::invalid_argument: a side that cuDNN's 32 bits do not hold
  explicit ConvolutionShapes(const ConvolutionKey& key);

  TensorDescriptor bottom, top;
  FilterDescriptor weights;
  ConvolutionDescriptor forward, to_bottom, to_weights;
};

/// What was searched, by shape: each search is made once in a process.
/// Thread    any
class ConvolutionCache {
 public:
  /// Measures all algorithms whose workspace keeps to the limit and takes the fastest; where bits
  /// must be the same in every run, or there is no room to measure in, what cuDNN expects to be
  /// fastest.
  /// Errors    DeviceError: cuDNN has no algorithm for it
  [[nodiscard]] const ConvolutionChoices& find(cudnnHandle_t library, const ConvolutionKey& key,
                                               const ConvolutionShapes& shapes,
                                               std::size_t workspace_limit);

 private:
  std::mutex mutex_;  // guards the map; what is in it stays
  std::map<ConvolutionKey, ConvolutionChoices> known_;
};

/// One convolution: bottom, top and their gradients in key.numbers' type (float32 for TF32).
/// Thread    one at a time
class Convolution {
 public:
  Convolution(cudnnHandle_t library, ConvolutionCache& cache, const ConvolutionKey& key,
              std::size_t workspace_limit);

  /// The most that any direction wants.
  [[nodiscard]] std::size_t workspace() const;
  [[nodiscard]] const ConvolutionKey& key() const { return key_; }

  /// library's stream is what these are queued on; workspace has workspace() bytes.
  void forward(cudnnHandle_t library, const void* bottom, const void* weights, void* top,
               void* workspace);
  void backward_bottom(cudnnHandle_t library, const void* top_gradient, const void* weights,
                       void* bottom_gradient, void* workspace);
  void backward_weights(cudnnHandle_t library, const void* bottom, const void* top_gradient,
                        void* weights_gradient, void* workspace);

 private:
  ConvolutionKey key_;
  std::string about_;  // for errors
  ConvolutionShapes shapes_;
  ConvolutionChoices choices_;
};

}  // namespace taut::cuda
