#include "cuda/kernels/loss.hpp"

#include <cfloat>

#include "cuda/kernels/fault.cuh"
#include "cuda/kernels/place_of.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

constexpr int kWarps = kThreads / 32;

template <class F>
__device__ float warp_reduce(float value, const F& f) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = f(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

/// One warp per row, if the classes are neighbours in memory.
__global__ void __launch_bounds__(kThreads)
    softmax_rows_kernel(std::int64_t rows, std::int64_t length, const float* bottom, float* top) {
  const unsigned lane = threadIdx.x % 32;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const float* x = bottom + row * length;
    float* y = top + row * length;
    float largest = -FLT_MAX;
    for (std::int64_t k = lane; k < length; k += 32) largest = x[k] > largest ? x[k] : largest;
    largest = warp_reduce(largest, [](float a, float b) { return a > b ? a : b; });
    float sum = 0;
    for (std::int64_t k = lane; k < length; k += 32) {
      const float e = expf(x[k] - largest);
      y[k] = e;
      sum += e;
    }
    sum = warp_reduce(sum, [](float a, float b) { return a + b; });
    for (std::int64_t k = lane; k < length; k += 32) y[k] /= sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    softmax_rows_backward_kernel(std::int64_t rows, std::int64_t length, const float* top,
                                 const float* top_gradient, float* bottom_gradient) {
  const unsigned lane = threadIdx.x % 32;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const float* y = top + row * length;
    const float* dy = top_gradient + row * length;
    float dot = 0;
    for (std::int64_t k = lane; k < length; k += 32) dot += y[k] * dy[k];
    dot = warp_reduce(dot, [](float a, float b) { return a + b; });
    for (std::int64_t k = lane; k < length; k += 32) {
      bottom_gradient[row * length + k] = y[k] * (dy[k] - dot);
    }
  }
}

/// The class that a label names; negative: ignored, or no class.
__device__ std::int64_t class_of(const Labels& labels, std::int64_t position,
                                 std::int64_t classes) {
  const float label = labels.at[position];
  if (labels.ignores && label == labels.ignored) return -1;
  if (label >= 0 && label < static_cast<float>(classes)) return static_cast<std::int64_t>(label);
  report_fault(labels.fault, Fault::kLabel, label, position, classes);
  return -1;
}

/// Whether fewer than top_k other classes score at least as high as the label.
__device__ bool is_right(const AxisView& view, const float* scores, std::int64_t position,
                         std::int64_t truth, std::int64_t top_k) {
  const float* score = scores + first_at(view, position);
  std::int64_t rivals = 0;
  for (std::int64_t k = 0; k < view.length; ++k) {
    // Written so that a NaN score makes the answer wrong, never right.
    const bool below = score[k * view.inner] < score[truth * view.inner];
    rivals += k != truth && !below ? 1 : 0;
  }
  return rivals < top_k;
}

/// Every position once per class: a class's block looks for its own labels.
AxisView each_class(const AxisView& view) {
  return {.outer = 1, .length = view.length, .inner = view.positions()};
}

__device__ double divisor_of(const Divisor& divisor, double counted) {
  return divisor.counted ? fmax(counted, 1.0) : divisor.fixed;
}

__device__ double square_distance(const ContrastiveShape& shape, const float* a, const float* b,
                                  std::int64_t pair) {
  double square = 0;
  for (std::int64_t i = pair * shape.features; i < (pair + 1) * shape.features; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    square += difference * difference;
  }
  return square;
}

/// The derivative of the pair's term of the sum, halved, with respect to a - b.
__device__ double contrastive_slope(const ContrastiveShape& shape, double square, bool similar) {
  if (similar) return 1;
  if (shape.legacy) return shape.margin > square ? -1 : 0;
  const double distance = sqrt(square);
  return shape.margin > distance ? -(shape.margin - distance) / at_least(distance, 1e-4) : 0;
}

}  // namespace

void softmax_forward(cudaStream_t stream, const AxisView& view, const float* bottom, float* top) {
  if (view.inner == 1) {
    launch({stream, "softmax_forward", view.count(), blocks_for(view.outer, kWarps)},
           softmax_rows_kernel, view.outer, view.length, bottom, top);
    return;
  }
  each(stream, "softmax_forward", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t at = first_at(view, position);
    const float* x = bottom + at;
    float* y = top + at;
    float largest = x[0];
    for (std::int64_t k = 1; k < view.length; ++k) {
      const float value = x[k * view.inner];
      largest = value > largest ? value : largest;
    }
    float sum = 0;
    for (std::int64_t k = 0; k < view.length; ++k) {
      const float e = expf(x[k * view.inner] - largest);
      y[k * view.inner] = e;
      sum += e;
    }
    for (std::int64_t k = 0; k < view.length; ++k) y[k * view.inner] /= sum;
  });
}

void softmax_backward(cudaStream_t stream, const AxisView& view, const float* top,
                      const float* top_gradient, float* bottom_gradient) {
  if (view.inner == 1) {
    launch({stream, "softmax_backward", view.count(), blocks_for(view.outer, kWarps)},
           softmax_rows_backward_kernel, view.outer, view.length, top, top_gradient,
           bottom_gradient);
    return;
  }
  each(stream, "softmax_backward", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t at = first_at(view, position);
    float dot = 0;
    for (std::int64_t k = 0; k < view.length; ++k) {
      dot += top[at + k * view.inner] * top_gradient[at + k * view.inner];
    }
    for (std::int64_t k = 0; k < view.length; ++k) {
      const std::int64_t i = at + k * view.inner;
      bottom_gradient[i] = top[i] * (top_gradient[i] - dot);
    }
  });
}

void softmax_loss_forward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                          const Labels& labels, const Divisor& divisor, float* loss,
                          double* divisor_out, void* scratch) {
  reduce(
      stream, "softmax_loss_forward", all_of(view.positions()), scratch,
      [=] __device__(std::int64_t position, std::int64_t, double& first, double& second) {
        const std::int64_t k = class_of(labels, position, view.length);
        if (k < 0) return;
        const float likely = probabilities[first_at(view, position) + k * view.inner];
        first -= logf(likely > FLT_MIN ? likely : (likely == likely ? FLT_MIN : likely));
        second += 1;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *divisor_out = divisor_of(divisor, total.second);
        *loss = static_cast<float>(total.first / *divisor_out);
      });
}

void softmax_loss_backward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                           const Labels& labels, float weight, const double* divisor,
                           float* bottom_gradient) {
  each(stream, "softmax_loss_backward", view.count(), [=] __device__(std::int64_t i) {
    const std::int64_t inner = i % view.inner;
    const std::int64_t row = i / view.inner;
    const std::int64_t k = row % view.length;
    const std::int64_t truth =
        class_of(labels, row / view.length * view.inner + inner, view.length);
    const auto scale = weight / static_cast<float>(*divisor);
    bottom_gradient[i] = truth < 0 ? 0.0F : scale * probabilities[i] - (k == truth ? scale : 0.0F);
  });
}

void infogain_loss_forward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                           const Labels& labels, const float* matrix, const Divisor& divisor,
                           float* loss, double* divisor_out, void* scratch) {
  constexpr float kMinProbability = 1e-20F;  // Caffe's
  reduce(
      stream, "infogain_loss_forward", all_of(view.positions()), scratch,
      [=] __device__(std::int64_t position, std::int64_t, double& first, double& second) {
        const std::int64_t truth = class_of(labels, position, view.length);
        if (truth < 0) return;
        const float* p = probabilities + first_at(view, position);
        const float* weights = matrix + truth * view.length;
        for (std::int64_t k = 0; k < view.length; ++k) {
          const float likely = p[k * view.inner];
          // Written so that NaN stays NaN.
          first -= static_cast<double>(weights[k]) *
                   logf(likely < kMinProbability ? kMinProbability : likely);
        }
        second += 1;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *divisor_out = divisor_of(divisor, total.second);
        *loss = static_cast<float>(total.first / *divisor_out);
      });
}

void infogain_loss_backward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                            const Labels& labels, const float* matrix, float weight,
                            const double* divisor, float* bottom_gradient) {
  each(stream, "infogain_loss_backward", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t truth = class_of(labels, position, view.length);
    const std::int64_t at = first_at(view, position);
    const float* weights = matrix + (truth < 0 ? 0 : truth) * view.length;
    const auto scale = weight / static_cast<float>(*divisor);
    float sum = 0;
    for (std::int64_t k = 0; k < view.length; ++k) sum += weights[k];
    for (std::int64_t k = 0; k < view.length; ++k) {
      const std::int64_t i = at + k * view.inner;
      bottom_gradient[i] = truth < 0 ? 0.0F : scale * (probabilities[i] * sum - weights[k]);
    }
  });
}

std::size_t accuracy_scratch(const AxisView& view) {
  return std::max(reduce_scratch(all_of(view.positions())), reduce_scratch(each_class(view)));
}

void accuracy(cudaStream_t stream, const AxisView& view, const float* scores, const Labels& labels,
              std::int64_t top_k, float* accuracy, float* by_class, void* scratch) {
  reduce(
      stream, "accuracy", all_of(view.positions()), scratch,
      [=] __device__(std::int64_t position, std::int64_t, double& first, double& second) {
        const std::int64_t truth = class_of(labels, position, view.length);
        if (truth < 0) return;
        first += is_right(view, scores, position, truth, top_k) ? 1 : 0;
        second += 1;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *accuracy = static_cast<float>(total.first) / static_cast<float>(fmax(total.second, 1.0));
      });
  if (by_class == nullptr) return;
  Labels reported = labels;
  reported.fault = nullptr;
  const std::int64_t positions = view.positions();
  reduce(
      stream, "accuracy of each class", each_class(view), scratch,
      [=] __device__(std::int64_t i, std::int64_t k, double& first, double& second) {
        const std::int64_t position = i - k * positions;
        if (class_of(reported, position, view.length) != k) return;
        first += is_right(view, scores, position, k, top_k) ? 1 : 0;
        second += 1;
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        by_class[k] = static_cast<float>(total.first) / static_cast<float>(fmax(total.second, 1.0));
      });
}

void arg_max(cudaStream_t stream, const AxisView& view, const float* bottom, std::int64_t top_k,
             const RankSteps& steps, float* indices, float* values) {
  each(stream, "arg_max", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t o = position / view.inner;
    const std::int64_t i = position - o * view.inner;
    const float* x = bottom + first_at(view, position);
    std::int64_t last = -1;  // the previous one in the ranking
    for (std::int64_t rank = 0; rank < top_k; ++rank) {
      std::int64_t best = -1;
      for (std::int64_t k = 0; k < view.length; ++k) {
        const float value = x[k * view.inner];
        // The elements after the last one in the order (larger first, then the lower index).
        const bool comes_after =
            last < 0 || value < x[last * view.inner] || (value == x[last * view.inner] && k > last);
        if (comes_after && (best < 0 || value > x[best * view.inner])) best = k;
      }
      if (best < 0) best = 0;  // only among NaN values
      const std::int64_t at = o * steps.outer + rank * steps.rank + i * steps.inner;
      if (indices != nullptr) indices[at] = static_cast<float>(best);
      if (values != nullptr) values[at] = x[best * view.inner];
      last = best;
    }
  });
}

void euclidean_forward(cudaStream_t stream, const float* a, const float* b, std::int64_t count,
                       double batch, float* loss, void* scratch) {
  reduce(
      stream, "euclidean_forward", all_of(count), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        const double difference = a[i] - b[i];
        first += difference * difference;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *loss = static_cast<float>(total.first / batch / 2);
      });
}

void euclidean_backward(cudaStream_t stream, const float* a, const float* b, std::int64_t count,
                        float factor, float* gradient) {
  map<2>(stream, "euclidean_backward", count, {{a, b}}, gradient,
         [factor] __device__(float x, float y) { return factor * (x - y); });
}

void sigmoid_cross_entropy_forward(cudaStream_t stream, const float* a, const Labels& targets,
                                   std::int64_t count, const Divisor& divisor, float* loss,
                                   double* divisor_out, void* scratch) {
  reduce(
      stream, "sigmoid_cross_entropy_forward", all_of(count), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double& second) {
        const float target = targets.at[i];
        if (targets.ignores && target == targets.ignored) return;
        const double x = a[i];
        // log(1 + exp(x)) - target x, written so that no exponential overflows.
        first += fmax(x, 0.0) + log1p(exp(-fabs(x))) - static_cast<double>(target) * x;
        second += 1;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *divisor_out = divisor_of(divisor, total.second);
        *loss = static_cast<float>(total.first / *divisor_out);
      });
}

void sigmoid_cross_entropy_backward(cudaStream_t stream, const float* a, const Labels& targets,
                                    std::int64_t count, float weight, const double* divisor,
                                    float* gradient) {
  each(stream, "sigmoid_cross_entropy_backward", count, [=] __device__(std::int64_t i) {
    const float target = targets.at[i];
    const auto scale = static_cast<float>(weight / *divisor);
    const float likely = 1 / (1 + expf(-a[i]));
    const bool ignored = targets.ignores && target == targets.ignored;
    gradient[i] = ignored ? 0.0F : scale * (likely - target);
  });
}

void hinge_forward(cudaStream_t stream, const float* scores, const Labels& labels,
                   std::int64_t records, std::int64_t classes, bool squared, float* loss,
                   void* scratch) {
  reduce(
      stream, "hinge_forward", all_of(records * classes), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        const std::int64_t record = i / classes;
        const std::int64_t truth = class_of(labels, record, classes);
        const float sign = i - record * classes == truth ? 1.0F : -1.0F;
        const double gap = at_least(1 - sign * scores[i], 0.0);
        first += squared ? gap * gap : gap;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *loss = static_cast<float>(total.first / static_cast<double>(records));
      });
}

void hinge_backward(cudaStream_t stream, const float* scores, const Labels& labels,
                    std::int64_t records, std::int64_t classes, bool squared, float weight,
                    float* gradient) {
  const float scale = weight / static_cast<float>(records);
  each(stream, "hinge_backward", records * classes, [=] __device__(std::int64_t i) {
    const std::int64_t record = i / classes;
    const std::int64_t truth = class_of(labels, record, classes);
    const float sign = i - record * classes == truth ? 1.0F : -1.0F;
    const float gap = 1 - sign * scores[i];
    const float slope = squared ? 2 * gap : 1;
    gradient[i] = gap > 0 ? -sign * scale * slope : 0;
  });
}

void contrastive_forward(cudaStream_t stream, const ContrastiveShape& shape, const float* a,
                         const float* b, const float* similar, float* loss, void* scratch) {
  reduce(
      stream, "contrastive_forward", all_of(shape.pairs), scratch,
      [=] __device__(std::int64_t pair, std::int64_t, double& first, double&) {
        const double square = square_distance(shape, a, b, pair);
        if (similar[pair] != 0) {
          first += square;
          return;
        }
        const double gap = at_least(shape.margin - (shape.legacy ? square : sqrt(square)), 0.0);
        first += shape.legacy ? gap : gap * gap;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *loss = static_cast<float>(total.first / static_cast<double>(shape.pairs) / 2);
      });
}

void contrastive_backward(cudaStream_t stream, const ContrastiveShape& shape, const float* a,
                          const float* b, const float* similar, float weight, float* a_gradient,
                          float* b_gradient) {
  each(stream, "contrastive_backward", shape.pairs, [=] __device__(std::int64_t pair) {
    const double slope =
        contrastive_slope(shape, square_distance(shape, a, b, pair), similar[pair] != 0);
    const auto scale = static_cast<float>(weight * slope / static_cast<double>(shape.pairs));
    for (std::int64_t i = pair * shape.features; i < (pair + 1) * shape.features; ++i) {
      const float gradient = scale * (a[i] - b[i]);
      if (a_gradient != nullptr) a_gradient[i] = gradient;
      if (b_gradient != nullptr) b_gradient[i] = -gradient;
    }
  });
}

}  // namespace taut::cuda
