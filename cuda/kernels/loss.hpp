#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/fault.hpp"
#include "cuda/kernels/reduce.hpp"

// Softmax, losses and measures of scores. The classes are a view's length; a label that is no class
// is recorded in a Fault and counts as ignored. Formulas and sources are at the operations in
// worker/engine/ops.
namespace taut::cuda {

void softmax_forward(cudaStream_t stream, const AxisView& view, const float* bottom, float* top);
void softmax_backward(cudaStream_t stream, const AxisView& view, const float* top,
                      const float* top_gradient, float* bottom_gradient);

/// The divisor of a loss's sum: a number, or how many labels count (at least 1).
struct Divisor {
  double fixed = 1;
  bool counted = false;
};
struct Labels {
  const float* at = nullptr;
  bool ignores = false;
  float ignored = 0;
  Fault* fault = nullptr;
};

/// divisor_out  one double in device memory, for the backward pass
void softmax_loss_forward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                          const Labels& labels, const Divisor& divisor, float* loss,
                          double* divisor_out, void* scratch);
void softmax_loss_backward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                           const Labels& labels, float weight, const double* divisor,
                           float* bottom_gradient);
/// matrix  [view.length, view.length]: row l weighs the classes if the label is l
void infogain_loss_forward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                           const Labels& labels, const float* matrix, const Divisor& divisor,
                           float* loss, double* divisor_out, void* scratch);
void infogain_loss_backward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                            const Labels& labels, const float* matrix, float weight,
                            const double* divisor, float* bottom_gradient);
/// The scratch bytes of accuracy().
[[nodiscard]] std::size_t accuracy_scratch(const AxisView& view);
/// by_class  [view.length]; nullptr: not computed
void accuracy(cudaStream_t stream, const AxisView& view, const float* scores, const Labels& labels,
              std::int64_t top_k, float* accuracy, float* by_class, void* scratch);

/// For each position the top_k largest of the length: indices and values, either may be nullptr.
/// Rank r of position (o, i) is at o * step.outer + r * step.rank + i * step.inner.
struct RankSteps {
  std::int64_t outer = 0;
  std::int64_t rank = 1;
  std::int64_t inner = 0;
};
void arg_max(cudaStream_t stream, const AxisView& view, const float* bottom, std::int64_t top_k,
             const RankSteps& steps, float* indices, float* values);

void euclidean_forward(cudaStream_t stream, const float* a, const float* b, std::int64_t count,
                       double batch, float* loss, void* scratch);
/// gradient = factor * (a - b)
void euclidean_backward(cudaStream_t stream, const float* a, const float* b, std::int64_t count,
                        float factor, float* gradient);
void sigmoid_cross_entropy_forward(cudaStream_t stream, const float* a, const Labels& targets,
                                   std::int64_t count, const Divisor& divisor, float* loss,
                                   double* divisor_out, void* scratch);
void sigmoid_cross_entropy_backward(cudaStream_t stream, const float* a, const Labels& targets,
                                    std::int64_t count, float weight, const double* divisor,
                                    float* gradient);
void hinge_forward(cudaStream_t stream, const float* scores, const Labels& labels,
                   std::int64_t records, std::int64_t classes, bool squared, float* loss,
                   void* scratch);
void hinge_backward(cudaStream_t stream, const float* scores, const Labels& labels,
                    std::int64_t records, std::int64_t classes, bool squared, float weight,
                    float* gradient);

struct ContrastiveShape {
  std::int64_t pairs = 0;
  std::int64_t features = 0;
  float margin = 1;
  bool legacy = false;
};
/// The scratch bytes of contrastive_forward().
[[nodiscard]] std::size_t contrastive_scratch(const ContrastiveShape& shape);
void contrastive_forward(cudaStream_t stream, const ContrastiveShape& shape, const float* a,
                         const float* b, const float* similar, float* loss, void* scratch);
/// Either gradient may be nullptr.
void contrastive_backward(cudaStream_t stream, const ContrastiveShape& shape, const float* a,
                          const float* b, const float* similar, float weight, float* a_gradient,
                          float* b_gradient);

}  // namespace taut::cuda
