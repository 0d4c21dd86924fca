#pragma once

#include <cstdint>

#include "worker/engine/plan/memory_plan.hpp"

namespace taut::test {

/// One training iteration with momentum SGD: forward, backward with each parameter's update behind
/// its gradient; activations, their gradients, parameters, momentum and one workspace for each
/// convolution (im2col of one image).
/// Source    Krizhevsky et al., NIPS 2012, in Caffe's bvlc_alexnet layout, 227x227
[[nodiscard]] AccessTrace alexnet_trace(std::uint64_t batch);
/// Source    Simonyan, Zisserman, ICLR 2015, configuration D, 224x224
[[nodiscard]] AccessTrace vgg16_trace(std::uint64_t batch);
/// One LSTM layer unrolled, its gates kept for backward, its weight gradient summed in place.
[[nodiscard]] AccessTrace lstm_trace(std::uint64_t batch, std::uint64_t hidden,
                                     std::size_t time_steps);

}  // namespace taut::test
