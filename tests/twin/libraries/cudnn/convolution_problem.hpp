#pragma once

#include "tests/twin/libraries/cudnn/convolution_math.hpp"
#include "tests/twin/libraries/cudnn/cudnn_state.hpp"

namespace taut::twin::dnn {

/// A convolution as its descriptors tell it.
struct Problem {
  ConvolutionShape shape;
  Format stored = Format::kFloat32;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

/// What its way to multiply rounds the factors to.
[[nodiscard]] Precision precision_of(const Problem& problem);

/// Checks the descriptors against each other, as each call does that gets all of them.
/// Reports   cudnn.descriptor-set, cudnn.not-emulated
cudnnStatus_t read_problem(const char* call, cudnnTensorDescriptor_t bottom,
                           cudnnFilterDescriptor_t weights,
                           cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t top,
                           Problem& problem);

}  // namespace taut::twin::dnn
