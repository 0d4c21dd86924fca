#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/convolution_key.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {

/// A cuDNN algorithm, as found for one direction of one convolution.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t workspace = 0;
  bool is_measured = false;
};
struct ConvolutionChoices {
  Choice<cudnnConvolutionFwdAlgo_t> forward;
  Choice<cudnnConvolutionBwdDataAlgo_t> bottom;
  Choice<cudnnConvolutionBwdFilterAlgo_t> weights;
};

/// The shapes of a convolution as cuDNN describes them. Images and weights are stored as N, C, H,
/// W. One convolution descriptor for each direction: their math types may differ.
struct ConvolutionShapes {
  /// Errors    std::invalid_argument: a side that does not fit cuDNN's 32 bits
  explicit ConvolutionShapes(const ConvolutionKey& key);

  TensorDescriptor bottom, top;
  FilterDescriptor weights;
  ConvolutionDescriptor forward, to_bottom, to_weights;
};

/// The results of searches, by shape: each search runs once per process, or once per file if it
/// measures.
/// Thread    any
class ConvolutionCache {
 public:
  ConvolutionCache() = default;
  /// file  of choices for one device and one version of cuDNN, which processes share: each appends
  ///       lines. An entry that cannot be read or does not fit is searched again; one that cannot
  ///       be written is lost with the process.
  explicit ConvolutionCache(std::filesystem::path file) : file_(std::move(file)) {}

  /// The fastest algorithm whose workspace is within the key's limit, measured if the key says so;
  /// if it does not, or there is no memory to measure in, the one that cuDNN expects to be fastest.
  /// Errors    DeviceError: cuDNN has no algorithm for it
  [[nodiscard]] const ConvolutionChoices& find(cudnnHandle_t library, const ConvolutionKey& key,
                                               const ConvolutionShapes& shapes);

 private:
  void read();
  void write(const ConvolutionKey& key, const ConvolutionChoices& choices) const;

  const std::filesystem::path file_;  // empty: none
  std::mutex mutex_;                  // guards the rest; entries of the map are never removed
  std::map<ConvolutionKey, ConvolutionChoices> known_;
  bool was_read_ = false;
  std::map<ConvolutionKey, ConvolutionChoices> kept_;  // from the file, not checked yet
};

/// One convolution: bottom, top and their gradients in key.numbers' type (float32 for TF32).
/// Thread    one at a time
class Convolution {
 public:
  Convolution(cudnnHandle_t library, ConvolutionCache& cache, const ConvolutionKey& key);

  /// The largest over all directions.
  [[nodiscard]] std::size_t workspace() const;
  [[nodiscard]] const ConvolutionKey& key() const { return key_; }

  /// These calls queue work on library's stream; workspace has workspace() bytes.
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
