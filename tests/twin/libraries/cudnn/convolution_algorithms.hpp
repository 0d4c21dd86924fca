#pragma once

#include <cudnn.h>

#include <cstddef>
#include <vector>

#include "tests/twin/libraries/cudnn/convolution_math.hpp"

// Which algorithms the twin's cuDNN has for a convolution: cuDNN's support tables, less some that
// the seed takes away, each with its own workspace.
namespace taut::twin::dnn {

enum class Direction { kForward, kBottom, kWeights };

/// An algorithm of one direction; number is that of cudnnConvolutionFwdAlgo_t and its kin.
struct ConvolutionAlgorithm {
  Direction direction = Direction::kForward;
  int number = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

[[nodiscard]] int count_of(Direction direction);
[[nodiscard]] bool is_deterministic(Direction direction, int number);

/// Whether cuDNN's support tables have it for these numbers.
/// Source    NVIDIA, cuDNN API Reference, cudnnConvolutionForward(),
///           cudnnConvolutionBackwardData(), cudnnConvolutionBackwardFilter(): the tables of
///           supported algorithms for 2D convolutions
[[nodiscard]] bool is_listed(const ConvolutionAlgorithm& algorithm, const ConvolutionShape& shape,
                             Format stored);
/// Whether this run's library has it: listed, and not taken away by the seed. One deterministic
/// algorithm of each direction always stays.
[[nodiscard]] bool is_supported(const ConvolutionAlgorithm& algorithm,
                                const ConvolutionShape& shape, Format stored);
/// Bytes; differs between ways to multiply.
[[nodiscard]] std::size_t workspace_of(const ConvolutionAlgorithm& algorithm,
                                       const ConvolutionShape& shape, Format stored);

/// One entry of what cudnnFind* and cudnnGet*_v7 answer.
struct Candidate {
  int number = 0;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  float time = -1;
  std::size_t memory = 0;
  cudnnDeterminism_t determinism = CUDNN_DETERMINISTIC;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

/// All algorithms of a direction in the order of the times that the seed gives them, those that are
/// not supported last.
/// math  of the convolution's descriptor: FMA alone for FMA, else with and without tensor cores
[[nodiscard]] std::vector<Candidate> candidates_of(Direction direction,
                                                   const ConvolutionShape& shape, Format stored,
                                                   cudnnMathType_t math);

}  // namespace taut::twin::dnn
