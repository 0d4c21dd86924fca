#include "cuda/kernels/sequence.hpp"

#include <cfloat>

#include "cuda/kernels/elementwise.hpp"
#include "cuda/kernels/fault.cuh"
#include "cuda/kernels/launch.cuh"

namespace taut::cuda {
namespace {

__device__ std::int64_t row_of(const EmbedShape& shape, const float* bottom,
                               std::int64_t position) {
  const float number = bottom[position];
  if (number >= 0 && number < static_cast<float>(shape.inputs)) {
    return static_cast<std::int64_t>(number);
  }
  return -1;
}

/// One block for each place of the batch. The first place that names a row owns it, and adds up all
/// places that name it, in order.
__global__ void __launch_bounds__(kThreads)
    embed_backward_kernel(EmbedShape shape, const float* bottom, const float* top_gradient,
                          float* weights_gradient) {
  using Matches = std::int64_t[kThreads];
  using WarpCounts = int[kThreads / 32];
  TAUT_SHARED(Matches, matches);
  TAUT_SHARED(WarpCounts, warp_counts);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  for (std::int64_t own = blockIdx.x; own < shape.count; own += gridDim.x) {
    const std::int64_t row = row_of(shape, bottom, own);
    if (row < 0) continue;
    int named_before = 0;
    for (std::int64_t j = threadIdx.x; j < own; j += kThreads) {
      named_before |= row_of(shape, bottom, j) == row ? 1 : 0;
    }
    if (__syncthreads_or(named_before) != 0) continue;
    float* into = weights_gradient + row * shape.outputs;
    for (std::int64_t begin = own; begin < shape.count; begin += kThreads) {
      const std::int64_t j = begin + threadIdx.x;
      const bool is_match = j < shape.count && row_of(shape, bottom, j) == row;
      const unsigned votes = __ballot_sync(0xffffffffU, is_match);
      if (lane == 0) warp_counts[warp] = __popc(votes);
      __syncthreads();
      int place = __popc(votes & ((1U << lane) - 1U));
      int total = 0;
      for (unsigned w = 0; w < kThreads / 32; ++w) {
        if (w < warp) place += warp_counts[w];
        total += warp_counts[w];
      }
      if (is_match) matches[place] = j;
      __syncthreads();
      for (std::int64_t k = threadIdx.x; total > 0 && k < shape.outputs; k += kThreads) {
        float sum = into[k];
        for (int m = 0; m < total; ++m) sum += top_gradient[matches[m] * shape.outputs + k];
        into[k] = sum;
      }
      __syncthreads();
    }
  }
}

__device__ float sigmoid_of(float x) {
  return 1 / (1 + expf(-x));
}

__device__ float marker(const float* cont, std::int64_t n) {
  return cont == nullptr ? 1.0F : cont[n];
}

__device__ float or_zero(const float* values, std::int64_t i) {
  return values == nullptr ? 0.0F : values[i];
}

/// Calls work(n, k, i) for each stream n and hidden unit k; i is their place in [streams, hidden].
template <class Work>
void each_unit(cudaStream_t stream, const char* name, const StepShape& shape, const Work& work) {
  const std::int64_t hidden = shape.hidden;
  each(stream, name, shape.streams * hidden, [=] __device__(std::int64_t i) {
    const std::int64_t n = i / hidden;
    work(n, i - n * hidden, i);
  });
}

/// One warp for each row of the weights.
__global__ void __launch_bounds__(kThreads)
    attention_softmax_kernel(AttentionShape shape, const float* mask, float* weights) {
  constexpr int kWarps = kThreads / 32;
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t rows = shape.pairs() * shape.steps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const std::int64_t t = row % shape.steps;
    const std::int64_t n = row / shape.steps / shape.heads;
    const std::int64_t seen = shape.causal ? t + 1 : shape.steps;
    float* x = weights + row * shape.steps;
    const auto counts = [&](std::int64_t i) {
      return i < seen && (mask == nullptr || mask[i * shape.streams + n] != 0);
    };
    float largest = -FLT_MAX;
    int any = 0;
    for (std::int64_t i = lane; i < shape.steps; i += 32) {
      if (!counts(i)) continue;
      any = 1;
      largest = x[i] > largest ? x[i] : largest;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, largest, offset);
      largest = other > largest ? other : largest;
    }
    any = __any_sync(0xffffffffU, any);
    float sum = 0;
    for (std::int64_t i = lane; i < shape.steps; i += 32) {
      const float e = counts(i) ? expf(x[i] - largest) : 0.0F;
      x[i] = e;
      sum += e;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    }
    for (std::int64_t i = lane; any != 0 && i < shape.steps; i += 32) x[i] /= sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    attention_softmax_backward_kernel(AttentionShape shape, const float* weights,
                                      float* gradients) {
  constexpr int kWarps = kThreads / 32;
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t rows = shape.pairs() * shape.steps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const float* w = weights + row * shape.steps;
    float* g = gradients + row * shape.steps;
    float along = 0;
    for (std::int64_t i = lane; i < shape.steps; i += 32) along += w[i] * g[i];
    for (int offset = 16; offset > 0; offset /= 2) {
      along += __shfl_xor_sync(0xffffffffU, along, offset);
    }
    for (std::int64_t i = lane; i < shape.steps; i += 32) g[i] = w[i] * (g[i] - along);
  }
}

/// The place of element i of [parts, pairs, steps, depth] in [steps, streams, parts * channels].
__device__ std::int64_t unpacked_place(const AttentionShape& shape, std::int64_t parts,
                                       std::int64_t i) {
  const std::int64_t d = i % shape.depth;
  std::int64_t rest = i / shape.depth;
  const std::int64_t t = rest % shape.steps;
  rest /= shape.steps;
  const std::int64_t head = rest % shape.heads;
  rest /= shape.heads;
  const std::int64_t n = rest % shape.streams;
  const std::int64_t part = rest / shape.streams;
  return (t * shape.streams + n) * parts * shape.channels() + part * shape.channels() +
         head * shape.depth + d;
}

}  // namespace

void embed_forward(cudaStream_t stream, const EmbedShape& shape, const float* bottom,
                   const float* weights, const float* bias, float* top, Fault* fault) {
  const std::int64_t width = shape.outputs;
  each(stream, "embed_forward", shape.count * width, [=] __device__(std::int64_t i) {
    const std::int64_t position = i / width;
    const std::int64_t k = i - position * width;
    const std::int64_t row = row_of(shape, bottom, position);
    if (row < 0) {
      top[i] = 0;
      report_fault(fault, Fault::kRow, bottom[position], position, shape.inputs);
      return;
    }
    top[i] = weights[row * width + k] + (bias == nullptr ? 0.0F : bias[k]);
  });
}

void embed_backward(cudaStream_t stream, const EmbedShape& shape, const float* bottom,
                    const float* top_gradient, float* weights_gradient) {
  fill(stream, weights_gradient, shape.inputs * shape.outputs, 0);
  if (shape.count <= 0) return;
  launch({stream, "embed_backward", shape.count * shape.outputs, blocks_for(shape.count, 1)},
         embed_backward_kernel, shape, bottom, top_gradient, weights_gradient);
}

void position_embed_forward(cudaStream_t stream, std::int64_t steps, std::int64_t streams,
                            std::int64_t channels, const float* bottom, const float* weights,
                            float* top) {
  each(stream, "position_embed_forward", steps * streams * channels,
       [=] __device__(std::int64_t i) {
         const std::int64_t row = i / channels;
         top[i] = bottom[i] + weights[row / streams * channels + (i - row * channels)];
       });
}

void position_embed_backward(cudaStream_t stream, std::int64_t steps, std::int64_t streams,
                             std::int64_t channels, const float* top_gradient,
                             float* weights_gradient) {
  each(stream, "position_embed_backward", steps * channels, [=] __device__(std::int64_t i) {
    const std::int64_t t = i / channels;
    const std::int64_t k = i - t * channels;
    float sum = 0;
    for (std::int64_t n = 0; n < streams; ++n) {
      sum += top_gradient[(t * streams + n) * channels + k];
    }
    weights_gradient[i] = sum;
  });
}

void take_over(cudaStream_t stream, const StepShape& shape, const float* h, const float* cont,
               float* before) {
  each_unit(stream, "take_over", shape,
            [=] __device__(std::int64_t n, std::int64_t, std::int64_t i) {
              before[i] = marker(cont, n) * h[i];
            });
}

void repeat_row(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* row,
                float* out) {
  each(stream, "repeat_row", rows * width,
       [=] __device__(std::int64_t i) { out[i] = row[i % width]; });
}

void rnn_step(cudaStream_t stream, const StepShape& shape, float* gates, float* h,
              const float* next_cont, float* next_before) {
  each_unit(stream, "rnn_step", shape,
            [=] __device__(std::int64_t n, std::int64_t, std::int64_t i) {
              const float value = tanhf(gates[i]);
              gates[i] = value;
              h[i] = value;
              if (next_before != nullptr) next_before[i] = marker(next_cont, n) * value;
            });
}

void lstm_step(cudaStream_t stream, const StepShape& shape, float* gates, const float* cont,
               const float* c_before, float* c, float* tanh_c, float* h, const float* next_cont,
               float* next_before) {
  const std::int64_t hidden = shape.hidden;
  each_unit(stream, "lstm_step", shape,
            [=] __device__(std::int64_t n, std::int64_t k, std::int64_t i) {
              float* gate = gates + n * 4 * hidden + k;
              const float in = sigmoid_of(gate[0]);
              const float forget = sigmoid_of(gate[hidden]);
              const float out = sigmoid_of(gate[2 * hidden]);
              const float fresh = tanhf(gate[3 * hidden]);
              const float state = forget * marker(cont, n) * c_before[i] + in * fresh;
              const float bounded = tanhf(state);
              gate[0] = in;
              gate[hidden] = forget;
              gate[2 * hidden] = out;
              gate[3 * hidden] = fresh;
              c[i] = state;
              tanh_c[i] = bounded;
              h[i] = out * bounded;
              if (next_before != nullptr) next_before[i] = marker(next_cont, n) * (out * bounded);
            });
}

void gru_step(cudaStream_t stream, const StepShape& shape, float* gates, const float* sums,
              const float* h_before, float* h, const float* next_cont, float* next_before) {
  const std::int64_t hidden = shape.hidden;
  each_unit(stream, "gru_step", shape,
            [=] __device__(std::int64_t n, std::int64_t k, std::int64_t i) {
              float* gate = gates + n * 3 * hidden + k;
              const float* sum = sums + n * 3 * hidden + k;
              const float reset = sigmoid_of(gate[0] + sum[0]);
              const float update = sigmoid_of(gate[hidden] + sum[hidden]);
              const float fresh = tanhf(gate[2 * hidden] + reset * sum[2 * hidden]);
              gate[0] = reset;
              gate[hidden] = update;
              gate[2 * hidden] = fresh;
              const float value = (1 - update) * fresh + update * h_before[i];
              h[i] = value;
              if (next_before != nullptr) next_before[i] = marker(next_cont, n) * value;
            });
}

void rnn_step_backward(cudaStream_t stream, const StepShape& shape, float* gates,
                       const float* above, const float* dh) {
  each_unit(stream, "rnn_step_backward", shape,
            [=] __device__(std::int64_t, std::int64_t, std::int64_t i) {
              gates[i] = (or_zero(above, i) + dh[i]) * (1 - gates[i] * gates[i]);
            });
}

void lstm_step_backward(cudaStream_t stream, const StepShape& shape, float* gates,
                        const float* cont, const float* c_before, const float* tanh_c,
                        const float* above, const float* dh, float* dc) {
  const std::int64_t hidden = shape.hidden;
  each_unit(stream, "lstm_step_backward", shape,
            [=] __device__(std::int64_t n, std::int64_t k, std::int64_t i) {
              float* gate = gates + n * 4 * hidden + k;
              const float in = gate[0];
              const float forget = gate[hidden];
              const float out = gate[2 * hidden];
              const float fresh = gate[3 * hidden];
              const float bounded = tanh_c[i];
              const float reaches = or_zero(above, i) + dh[i];
              const float d = dc[i] + reaches * out * (1 - bounded * bounded);
              const float continued = marker(cont, n);
              gate[0] = d * fresh * in * (1 - in);
              gate[hidden] = d * continued * c_before[i] * forget * (1 - forget);
              gate[2 * hidden] = reaches * bounded * out * (1 - out);
              gate[3 * hidden] = d * in * (1 - fresh * fresh);
              dc[i] = d * continued * forget;
            });
}

void gru_step_backward(cudaStream_t stream, const StepShape& shape, float* gates, float* sums,
                       const float* h_before, const float* above, const float* dh,
                       float* dh_before) {
  const std::int64_t hidden = shape.hidden;
  each_unit(stream, "gru_step_backward", shape,
            [=] __device__(std::int64_t n, std::int64_t k, std::int64_t i) {
              float* gate = gates + n * 3 * hidden + k;
              float* sum = sums + n * 3 * hidden + k;
              const float reset = gate[0];
              const float update = gate[hidden];
              const float fresh = gate[2 * hidden];
              const float reaches = or_zero(above, i) + dh[i];
              const float dn = reaches * (1 - update) * (1 - fresh * fresh);
              const float dr = dn * sum[2 * hidden] * reset * (1 - reset);
              const float dz = reaches * (h_before[i] - fresh) * update * (1 - update);
              dh_before[i] = reaches * update;
              gate[0] = dr;
              gate[hidden] = dz;
              gate[2 * hidden] = dn;
              sum[0] = dr;
              sum[hidden] = dz;
              sum[2 * hidden] = dn * reset;
            });
}

void pack_heads(cudaStream_t stream, const AttentionShape& shape, std::int64_t parts,
                const float* from, float* to) {
  each(stream, "pack_heads", parts * shape.pairs() * shape.steps * shape.depth,
       [=] __device__(std::int64_t i) { to[i] = from[unpacked_place(shape, parts, i)]; });
}

void unpack_heads(cudaStream_t stream, const AttentionShape& shape, std::int64_t parts,
                  const float* from, float* to) {
  each(stream, "unpack_heads", parts * shape.pairs() * shape.steps * shape.depth,
       [=] __device__(std::int64_t i) { to[unpacked_place(shape, parts, i)] = from[i]; });
}

void attention_softmax(cudaStream_t stream, const AttentionShape& shape, const float* mask,
                       float* weights) {
  const std::int64_t rows = shape.pairs() * shape.steps;
  if (rows <= 0) return;
  launch({stream, "attention_softmax", rows * shape.steps, blocks_for(rows, kThreads / 32)},
         attention_softmax_kernel, shape, mask, weights);
}

void attention_softmax_backward(cudaStream_t stream, const AttentionShape& shape,
                                const float* weights, float* gradients) {
  const std::int64_t rows = shape.pairs() * shape.steps;
  if (rows <= 0) return;
  launch(
      {stream, "attention_softmax_backward", rows * shape.steps, blocks_for(rows, kThreads / 32)},
      attention_softmax_backward_kernel, shape, weights, gradients);
}

}  // namespace taut::cuda
