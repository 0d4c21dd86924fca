#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/math/host_device.hpp"
#include "cuda/fault.hpp"

// Kernels over sequences stored as [T steps, N streams, C channels], row by row. Formulas, orders
// of gates and sources are at the operations in worker/engine/ops.
namespace taut::cuda {

struct EmbedShape {
  std::int64_t count = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};
/// bias  nullptr: none. A number that names no row gives zeros, and a Fault.
void embed_forward(cudaStream_t stream, const EmbedShape& shape, const float* bottom,
                   const float* weights, const float* bias, float* top, Fault* fault);
/// Overwrites weights_gradient [inputs, outputs]. Rows that are named several times are summed in
/// the order of their places, independent of timing.
void embed_backward(cudaStream_t stream, const EmbedShape& shape, const float* bottom,
                    const float* top_gradient, float* weights_gradient);
/// top[t, n] = bottom[t, n] + weights[t]
void position_embed_forward(cudaStream_t stream, std::int64_t steps, std::int64_t streams,
                            std::int64_t channels, const float* bottom, const float* weights,
                            float* top);
/// weights_gradient[t] = the sum over n of top_gradient[t, n]
void position_embed_backward(cudaStream_t stream, std::int64_t steps, std::int64_t streams,
                             std::int64_t channels, const float* top_gradient,
                             float* weights_gradient);

/// One step of a recurrent layer, between the matrix products. Rows [streams] of `hidden` elements;
/// gates [streams, G * hidden].
struct StepShape {
  std::int64_t streams = 0;
  std::int64_t hidden = 0;
};
/// before[n] = cont[n] * h[n]; cont nullptr: 1
void take_over(cudaStream_t stream, const StepShape& shape, const float* h, const float* cont,
               float* before);
/// sum[n] = row for every stream
void repeat_row(cudaStream_t stream, std::int64_t rows, std::int64_t width, const float* row,
                float* out);

/// gates     in: the sums; out: activated, kept for the backward pass
/// next_*    the state from which the next step starts: next_before = next_cont * h; nullptr at the
///           last
void rnn_step(cudaStream_t stream, const StepShape& shape, float* gates, float* h,
              const float* next_cont, float* next_before);
void lstm_step(cudaStream_t stream, const StepShape& shape, float* gates, const float* cont,
               const float* c_before, float* c, float* tanh_c, float* h, const float* next_cont,
               float* next_before);
/// sums [streams, 3 * hidden], of the hidden state
void gru_step(cudaStream_t stream, const StepShape& shape, float* gates, const float* sums,
              const float* h_before, float* h, const float* next_cont, float* next_before);

/// above      the gradient of this step's h from the top; nullptr: none
/// dh         its gradient from later steps
/// gates      in: as the step left them; out: the gradients of its sums
void rnn_step_backward(cudaStream_t stream, const StepShape& shape, float* gates,
                       const float* above, const float* dh);
/// dc  in: of this step's c, from later steps; out: of the previous c
void lstm_step_backward(cudaStream_t stream, const StepShape& shape, float* gates,
                        const float* cont, const float* c_before, const float* tanh_c,
                        const float* above, const float* dh, float* dc);
/// sums       in: as the step left them; out: their gradients
/// dh_before  out: the gradient of the previous h that does not pass through the matrix product
void gru_step_backward(cudaStream_t stream, const StepShape& shape, float* gates, float* sums,
                       const float* h_before, const float* above, const float* dh,
                       float* dh_before);

struct AttentionShape {
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t heads = 0;
  std::int64_t depth = 0;  // of a head
  bool causal = false;

  [[nodiscard]] TAUT_HD constexpr std::int64_t pairs() const { return streams * heads; }
  [[nodiscard]] TAUT_HD constexpr std::int64_t channels() const { return heads * depth; }
};
/// From [steps, streams, parts * channels] to [parts, pairs, steps, depth], or back.
void pack_heads(cudaStream_t stream, const AttentionShape& shape, std::int64_t parts,
                const float* from, float* to);
void unpack_heads(cudaStream_t stream, const AttentionShape& shape, std::int64_t parts,
                  const float* from, float* to);
/// weights [pairs, steps, steps]: scores become weights; masked and later steps get 0.
/// mask  [steps, streams]; nullptr: all count
void attention_softmax(cudaStream_t stream, const AttentionShape& shape, const float* mask,
                       float* weights);
/// gradients  in: with respect to the weights; out: with respect to the scores
void attention_softmax_backward(cudaStream_t stream, const AttentionShape& shape,
                                const float* weights, float* gradients);

}  // namespace taut::cuda
