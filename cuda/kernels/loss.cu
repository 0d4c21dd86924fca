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

/// The largest value of a block's threads, for all of them; NaN is not larger than any.
__device__ float block_max_for_all(float value) {
  using Parts = float[kWarps];
  TAUT_SHARED(Parts, parts);
  value = warp_reduce(value, [](float a, float b) { return a > b ? a : b; });
  __syncthreads();  // waits for an earlier call's readers
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < kWarps; ++warp) value = parts[warp] > value ? parts[warp] : value;
  return value;
}

/// Over the threads that share a row: a warp, or a block if there are few long rows.
template <int kWidth>
__device__ float row_max(float value) {
  if constexpr (kWidth == kThreads) return block_max_for_all(value);
  return warp_reduce(value, [](float a, float b) { return a > b ? a : b; });
}
template <int kWidth>
__device__ float row_sum(float value) {
  if constexpr (kWidth == kThreads) return block_sum_for_all(value);
  return warp_reduce(value, [](float a, float b) { return a + b; });
}

/// kWidth threads per row, if the classes are neighbours in memory.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    softmax_rows_kernel(std::int64_t rows, std::int64_t length, const float* bottom, float* top) {
  constexpr int kRows = kThreads / kWidth;
  const unsigned lane = threadIdx.x % kWidth;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kWidth;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kRows) {
    const float* x = bottom + row * length;
    float* y = top + row * length;
    float largest = -FLT_MAX;
    for (std::int64_t k = lane; k < length; k += kWidth) largest = x[k] > largest ? x[k] : largest;
    largest = row_max<kWidth>(largest);
    float sum = 0;
    for (std::int64_t k = lane; k < length; k += kWidth) {
      const float e = expf(x[k] - largest);
      y[k] = e;
      sum += e;
    }
    sum = row_sum<kWidth>(sum);
    for (std::int64_t k = lane; k < length; k += kWidth) y[k] /= sum;
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    softmax_rows_backward_kernel(std::int64_t rows, std::int64_t length, const float* top,
                                 const float* top_gradient, float* bottom_gradient) {
  constexpr int kRows = kThreads / kWidth;
  const unsigned lane = threadIdx.x % kWidth;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kWidth;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kRows) {
    const float* y = top + row * length;
    const float* dy = top_gradient + row * length;
    float dot = 0;
    for (std::int64_t k = lane; k < length; k += kWidth) dot += y[k] * dy[k];
    dot = row_sum<kWidth>(dot);
    for (std::int64_t k = lane; k < length; k += kWidth) {
      bottom_gradient[row * length + k] = y[k] * (dy[k] - dot);
    }
  }
}

/// Whether a block for each row keeps more of a device busy than a warp.
bool are_few_long(std::int64_t rows, std::int64_t length) {
  constexpr std::int64_t kManyRows = 1024;
  return rows < kManyRows && length >= 2 * kThreads;
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

/// How many other classes score at least as high as the label, among those that a thread checks:
/// every `step`th from `begin` on.
/// score  of the position's first class
__device__ int rivals_of(const AxisView& view, const float* score, std::int64_t truth,
                         std::int64_t begin, std::int64_t step) {
  int rivals = 0;
  for (std::int64_t k = begin; k < view.length; k += step) {
    // Written so that a NaN score makes the answer wrong, never right.
    const bool below = score[k * view.inner] < score[truth * view.inner];
    rivals += k != truth && !below ? 1 : 0;
  }
  return rivals;
}

/// What a position counts: 1; or 0 if top_k or more other classes score at least as high as its
/// label; or kUncounted.
constexpr float kUncounted = -1;

/// One warp per position, if the classes are neighbours in memory.
__global__ void __launch_bounds__(kThreads)
    accuracy_marks_kernel(AxisView view, const float* scores, Labels labels, std::int64_t top_k,
                          float* marks) {
  const unsigned lane = threadIdx.x % 32;
  Labels own = labels;
  if (lane != 0) own.fault = nullptr;
  for (std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       position < view.outer; position += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const std::int64_t truth = class_of(own, position, view.length);
    int rivals = 0;
    if (truth >= 0) rivals = rivals_of(view, scores + position * view.length, truth, lane, 32);
    for (int offset = 16; offset > 0; offset /= 2) {
      rivals += __shfl_xor_sync(0xffffffffU, rivals, offset);
    }
    if (lane == 0) marks[position] = truth < 0 ? kUncounted : (rivals < top_k ? 1.0F : 0.0F);
  }
}

/// The reduction's scratch memory is behind the marks.
std::size_t mark_bytes(const AxisView& view) {
  return (static_cast<std::size_t>(view.positions()) * sizeof(float) + 255) / 256 * 256;
}

/// Every position once per class: a class's block looks for its own labels.
AxisView each_class(const AxisView& view) {
  return {.outer = 1, .length = view.length, .inner = view.positions()};
}

__device__ double divisor_of(const Divisor& divisor, double counted) {
  return divisor.counted ? fmax(counted, 1.0) : divisor.fixed;
}

/// By a warp, for all its lanes.
__device__ double square_distance(const ContrastiveShape& shape, const float* a, const float* b,
                                  std::int64_t pair) {
  double square = 0;
  for (std::int64_t i = pair * shape.features + threadIdx.x % 32; i < (pair + 1) * shape.features;
       i += 32) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    square += difference * difference;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    square += __shfl_xor_sync(0xffffffffU, square, offset);
  }
  return square;
}

__global__ void __launch_bounds__(kThreads)
    contrastive_squares_kernel(ContrastiveShape shape, const float* a, const float* b,
                               double* squares) {
  for (std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       pair < shape.pairs; pair += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const double square = square_distance(shape, a, b, pair);
    if (threadIdx.x % 32 == 0) squares[pair] = square;
  }
}

std::size_t square_bytes(const ContrastiveShape& shape) {
  return (static_cast<std::size_t>(shape.pairs) * sizeof(double) + 255) / 256 * 256;
}

/// The derivative of the pair's term of the sum, halved, with respect to a - b.
__device__ double contrastive_slope(const ContrastiveShape& shape, double square, bool similar) {
  if (similar) return 1;
  if (shape.legacy) return shape.margin > square ? -1 : 0;
  const double distance = sqrt(square);
  return shape.margin > distance ? -(shape.margin - distance) / at_least(distance, 1e-4) : 0;
}

__global__ void __launch_bounds__(kThreads)
    contrastive_backward_kernel(ContrastiveShape shape, const float* a, const float* b,
                                const float* similar, float weight, float* a_gradient,
                                float* b_gradient) {
  for (std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       pair < shape.pairs; pair += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const double slope =
        contrastive_slope(shape, square_distance(shape, a, b, pair), similar[pair] != 0);
    const auto scale = static_cast<float>(weight * slope / static_cast<double>(shape.pairs));
    for (std::int64_t i = pair * shape.features + threadIdx.x % 32; i < (pair + 1) * shape.features;
         i += 32) {
      const float gradient = scale * (a[i] - b[i]);
      if (a_gradient != nullptr) a_gradient[i] = gradient;
      if (b_gradient != nullptr) b_gradient[i] = -gradient;
    }
  }
}

}  // namespace

void softmax_forward(cudaStream_t stream, const AxisView& view, const float* bottom, float* top) {
  if (view.inner == 1) {
    if (are_few_long(view.outer, view.length)) {
      launch({stream, "softmax_forward", view.count(), blocks_for(view.outer, 1)},
             softmax_rows_kernel<kThreads>, view.outer, view.length, bottom, top);
    } else {
      launch({stream, "softmax_forward", view.count(), blocks_for(view.outer, kWarps)},
             softmax_rows_kernel<32>, view.outer, view.length, bottom, top);
    }
    return;
  }
  const FirstAt first(view);
  each(stream, "softmax_forward", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t at = first(position);
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
    if (are_few_long(view.outer, view.length)) {
      launch({stream, "softmax_backward", view.count(), blocks_for(view.outer, 1)},
             softmax_rows_backward_kernel<kThreads>, view.outer, view.length, top, top_gradient,
             bottom_gradient);
    } else {
      launch({stream, "softmax_backward", view.count(), blocks_for(view.outer, kWarps)},
             softmax_rows_backward_kernel<32>, view.outer, view.length, top, top_gradient,
             bottom_gradient);
    }
    return;
  }
  const FirstAt first(view);
  each(stream, "softmax_backward", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t at = first(position);
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
  const FirstAt start(view);
  reduce(
      stream, "softmax_loss_forward", all_of(view.positions()), scratch,
      [=] __device__(std::int64_t position, std::int64_t, double& first, double& second) {
        const std::int64_t k = class_of(labels, position, view.length);
        if (k < 0) return;
        const float likely = probabilities[start(position) + k * view.inner];
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
  const Divider by_inner(view.inner, view.count());
  const Divider by_length(view.length, view.count());
  each(stream, "softmax_loss_backward", view.count(), [=] __device__(std::int64_t i) {
    const std::int64_t row = by_inner(i);
    const std::int64_t record = by_length(row);
    const std::int64_t k = row - record * view.length;
    const std::int64_t position = record * view.inner + (i - row * view.inner);
    const std::int64_t truth = class_of(labels, position, view.length);
    const auto scale = weight / static_cast<float>(*divisor);
    bottom_gradient[i] = truth < 0 ? 0.0F : scale * probabilities[i] - (k == truth ? scale : 0.0F);
  });
}

void infogain_loss_forward(cudaStream_t stream, const AxisView& view, const float* probabilities,
                           const Labels& labels, const float* matrix, const Divisor& divisor,
                           float* loss, double* divisor_out, void* scratch) {
  constexpr float kMinProbability = 1e-20F;  // Caffe's
  const FirstAt start(view);
  reduce(
      stream, "infogain_loss_forward", all_of(view.positions()), scratch,
      [=] __device__(std::int64_t position, std::int64_t, double& first, double& second) {
        const std::int64_t truth = class_of(labels, position, view.length);
        if (truth < 0) return;
        const float* p = probabilities + start(position);
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
  const FirstAt first(view);
  each(stream, "infogain_loss_backward", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t truth = class_of(labels, position, view.length);
    const std::int64_t at = first(position);
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
  return mark_bytes(view) +
         std::max(reduce_scratch(all_of(view.positions())), reduce_scratch(each_class(view)));
}

void accuracy(cudaStream_t stream, const AxisView& view, const float* scores, const Labels& labels,
              std::int64_t top_k, float* accuracy, float* by_class, void* scratch) {
  auto* const marks = static_cast<float*>(scratch);
  void* const rest = static_cast<std::byte*>(scratch) + mark_bytes(view);
  const std::int64_t positions = view.positions();
  if (view.inner == 1) {
    launch({stream, "accuracy of each", view.count(), blocks_for(positions, kWarps)},
           accuracy_marks_kernel, view, scores, labels, top_k, marks);
  } else {
    const FirstAt first(view);
    each(stream, "accuracy of each", positions, [=] __device__(std::int64_t position) {
      const std::int64_t truth = class_of(labels, position, view.length);
      marks[position] = kUncounted;
      if (truth < 0) return;
      const int rivals = rivals_of(view, scores + first(position), truth, 0, 1);
      marks[position] = rivals < top_k ? 1.0F : 0.0F;
    });
  }
  reduce(
      stream, "accuracy", all_of(positions), rest,
      [=] __device__(std::int64_t position, std::int64_t, double& first, double& second) {
        if (marks[position] == kUncounted) return;
        first += marks[position];
        second += 1;
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *accuracy = static_cast<float>(total.first) / static_cast<float>(fmax(total.second, 1.0));
      });
  if (by_class == nullptr) return;
  Labels reported = labels;
  reported.fault = nullptr;
  reduce(
      stream, "accuracy of each class", each_class(view), rest,
      [=] __device__(std::int64_t i, std::int64_t k, double& first, double& second) {
        const std::int64_t position = i - k * positions;
        if (class_of(reported, position, view.length) != k) return;
        first += marks[position];
        second += 1;
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        by_class[k] = static_cast<float>(total.first) / static_cast<float>(fmax(total.second, 1.0));
      });
}

void arg_max(cudaStream_t stream, const AxisView& view, const float* bottom, std::int64_t top_k,
             const RankSteps& steps, float* indices, float* values) {
  const Divider by_inner(view.inner, view.positions());
  each(stream, "arg_max", view.positions(), [=] __device__(std::int64_t position) {
    const std::int64_t o = by_inner(position);
    const std::int64_t i = position - o * view.inner;
    const float* x = bottom + o * view.length * view.inner + i;
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
  const Divider by_classes(classes, records * classes);
  reduce(
      stream, "hinge_forward", all_of(records * classes), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        const std::int64_t record = by_classes(i);
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
  const Divider by_classes(classes, records * classes);
  each(stream, "hinge_backward", records * classes, [=] __device__(std::int64_t i) {
    const std::int64_t record = by_classes(i);
    const std::int64_t truth = class_of(labels, record, classes);
    const float sign = i - record * classes == truth ? 1.0F : -1.0F;
    const float gap = 1 - sign * scores[i];
    const float slope = squared ? 2 * gap : 1;
    gradient[i] = gap > 0 ? -sign * scale * slope : 0;
  });
}

std::size_t contrastive_scratch(const ContrastiveShape& shape) {
  return square_bytes(shape) + reduce_scratch(all_of(shape.pairs));
}

void contrastive_forward(cudaStream_t stream, const ContrastiveShape& shape, const float* a,
                         const float* b, const float* similar, float* loss, void* scratch) {
  auto* const squares = static_cast<double*>(scratch);
  launch({stream, "contrastive squares", shape.pairs * shape.features,
          blocks_for(shape.pairs, kWarps)},
         contrastive_squares_kernel, shape, a, b, squares);
  reduce(
      stream, "contrastive_forward", all_of(shape.pairs),
      static_cast<std::byte*>(scratch) + square_bytes(shape),
      [=] __device__(std::int64_t pair, std::int64_t, double& first, double&) {
        const double square = squares[pair];
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
  launch({stream, "contrastive_backward", shape.pairs * shape.features,
          blocks_for(shape.pairs, kWarps)},
         contrastive_backward_kernel, shape, a, b, similar, weight, a_gradient, b_gradient);
}

}  // namespace taut::cuda
