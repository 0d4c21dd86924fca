#include "cuda/kernels/sequence.hpp"

#include <cfloat>

#include "cuda/kernels/elementwise.hpp"
#include "cuda/kernels/fault.cuh"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/place_of.cuh"

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

constexpr int kListed = 2 * kThreads;

/// The places of a batch that name rows of one block, in order.
struct PlaceList {
  std::int64_t place[kListed];
  std::int64_t row[kListed];
  int next[kListed];  // the next one of the same row; -1: none
  int is_first[kListed];
  int found[kThreads / 32];  // by each warp
};

/// Finds each listed place's successor of the same row, and the first place of each row.
__device__ void link_list(PlaceList& list, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    int next = i + 1;
    while (next < count && list.row[next] != list.row[i]) ++next;
    int before = i - 1;
    while (before >= 0 && list.row[before] != list.row[i]) --before;
    list.next[i] = next < count ? next : -1;
    list.is_first[i] = before < 0 ? 1 : 0;
  }
}

/// A block for all rows with the same remainder: it reads each place's number once, and adds up
/// what the places of each row have, in order.
/// blocks  a power of two
__global__ void __launch_bounds__(kThreads)
    embed_backward_kernel(EmbedShape shape, std::int64_t blocks, const float* bottom,
                          const float* top_gradient, float* weights_gradient) {
  TAUT_SHARED(PlaceList, list);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  int count = 0;  // the same for all threads
  for (std::int64_t begin = 0; begin < shape.count; begin += kThreads) {
    const std::int64_t j = begin + threadIdx.x;
    const std::int64_t row = j < shape.count ? row_of(shape, bottom, j) : -1;
    const bool is_own = row >= 0 && (row & (blocks - 1)) == blockIdx.x;
    const unsigned votes = __ballot_sync(kWholeWarp, is_own);
    if (lane == 0) list.found[warp] = __popc(votes);
    __syncthreads();
    int place = count + __popc(votes & ((1U << lane) - 1U));
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      if (w < warp) place += list.found[w];
      count += list.found[w];
    }
    if (is_own) {
      list.place[place] = j;
      list.row[place] = row;
    }
    __syncthreads();
    const bool is_last = begin + kThreads >= shape.count;
    if (count + kThreads <= kListed && !is_last) continue;
    link_list(list, count);
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      if (list.is_first[i] == 0) continue;
      float* into = weights_gradient + list.row[i] * shape.outputs;
      for (std::int64_t k = threadIdx.x; k < shape.outputs; k += kThreads) {
        float sum = into[k];
        for (int at = i; at >= 0; at = list.next[at]) {
          sum += top_gradient[list.place[at] * shape.outputs + k];
        }
        into[k] = sum;
      }
    }
    __syncthreads();
    count = 0;
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
  const Divider by_hidden(hidden, shape.streams * hidden);
  each(stream, name, shape.streams * hidden, [=] __device__(std::int64_t i) {
    const std::int64_t n = by_hidden(i);
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
      const float other = __shfl_xor_sync(kWholeWarp, largest, offset);
      largest = other > largest ? other : largest;
    }
    any = __any_sync(kWholeWarp, any);
    float sum = 0;
    for (std::int64_t i = lane; i < shape.steps; i += 32) {
      const float e = counts(i) ? expf(x[i] - largest) : 0.0F;
      x[i] = e;
      sum += e;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(kWholeWarp, sum, offset);
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
      along += __shfl_xor_sync(kWholeWarp, along, offset);
    }
    for (std::int64_t i = lane; i < shape.steps; i += 32) g[i] = w[i] * (g[i] - along);
  }
}

/// The place of element i of [parts, pairs, steps, depth] in [steps, streams, parts * channels].
class UnpackedPlace {
 public:
  UnpackedPlace(const AttentionShape& shape, std::int64_t parts)
      : shape_(shape),
        parts_(parts),
        by_depth_(shape.depth, count()),
        by_steps_(shape.steps, count()),
        by_heads_(shape.heads, count()),
        by_streams_(shape.streams, count()) {}

  [[nodiscard]] std::int64_t count() const {
    return parts_ * shape_.pairs() * shape_.steps * shape_.depth;
  }
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t row = by_depth_(i);
    const std::int64_t pair = by_steps_(row);
    const std::int64_t stream = by_heads_(pair);  // of a part
    const std::int64_t part = by_streams_(stream);
    const std::int64_t t = row - pair * shape_.steps;
    const std::int64_t n = stream - part * shape_.streams;
    const std::int64_t head = pair - stream * shape_.heads;
    return (t * shape_.streams + n) * parts_ * shape_.channels() + part * shape_.channels() +
           head * shape_.depth + (i - row * shape_.depth);
  }

 private:
  AttentionShape shape_;
  std::int64_t parts_;
  Divider by_depth_;
  Divider by_steps_;
  Divider by_heads_;
  Divider by_streams_;
};

}  // namespace

void embed_forward(cudaStream_t stream, const EmbedShape& shape, const float* bottom,
                   const float* weights, const float* bias, float* top, Fault* fault) {
  const std::int64_t width = shape.outputs;
  const Divider by_width(width, shape.count * width);
  each(stream, "embed_forward", shape.count * width, [=] __device__(std::int64_t i) {
    const std::int64_t position = by_width(i);
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
  // Each block reads all numbers, and has some places to add up.
  constexpr std::int64_t kMaxRemainders = 1024;
  constexpr std::int64_t kPlacesEach = 16;
  std::int64_t blocks = 1;
  while (blocks < kMaxRemainders && blocks * kPlacesEach < shape.count) blocks *= 2;
  launch({stream, "embed_backward", shape.count * shape.outputs, static_cast<unsigned>(blocks)},
         embed_backward_kernel, shape, blocks, bottom, top_gradient, weights_gradient);
}

void position_embed_forward(cudaStream_t stream, std::int64_t steps, std::int64_t streams,
                            std::int64_t channels, const float* bottom, const float* weights,
                            float* top) {
  const std::int64_t count = steps * streams * channels;
  const Divider by_channels(channels, count);
  const Divider by_streams(streams, count);
  each(stream, "position_embed_forward", count, [=] __device__(std::int64_t i) {
    const std::int64_t row = by_channels(i);
    top[i] = bottom[i] + weights[by_streams(row) * channels + (i - row * channels)];
  });
}

void position_embed_backward(cudaStream_t stream, std::int64_t steps, std::int64_t streams,
                             std::int64_t channels, const float* top_gradient,
                             float* weights_gradient) {
  const Divider by_channels(channels, steps * channels);
  each(stream, "position_embed_backward", steps * channels, [=] __device__(std::int64_t i) {
    const std::int64_t t = by_channels(i);
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
  const Divider by_width(width, rows * width);
  each(stream, "repeat_row", rows * width,
       [=] __device__(std::int64_t i) { out[i] = row[i - by_width(i) * width]; });
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
  const UnpackedPlace place(shape, parts);
  each(stream, "pack_heads", place.count(),
       [=] __device__(std::int64_t i) { to[i] = from[place(i)]; });
}

void unpack_heads(cudaStream_t stream, const AttentionShape& shape, std::int64_t parts,
                  const float* from, float* to) {
  const UnpackedPlace place(shape, parts);
  each(stream, "unpack_heads", place.count(),
       [=] __device__(std::int64_t i) { to[place(i)] = from[i]; });
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
