#pragma once

#include <cstddef>

// One step of one stream of a recurrent layer, between the matrix products; RecurrentOp has the
// formulas and the order of the gates. Rows have `hidden` elements, gates one row per gate.
namespace taut::cpu {

/// gates  in: the sums; out: h, kept for the backward pass
void rnn_forward(float* gates, float* h, std::size_t hidden);
/// gates  in: as forward left them; out: the gradient of the sums
void rnn_backward(float* gates, const float* dh, std::size_t hidden);

/// gates  in: the sums; out: i, f, o, g
/// tanh_c out: kept for the backward pass
void lstm_forward(float* gates, float cont, const float* c_before, float* c, float* tanh_c,
                  float* h, std::size_t hidden);
/// gates  in: as forward left them; out: the gradient of the sums
/// dc     in: the gradient of c from later steps; out: that of c_before
void lstm_backward(float* gates, float cont, const float* c_before, const float* tanh_c,
                   const float* dh, float* dc, std::size_t hidden);

/// gates      in: the input's sums; out: r, z, n
/// sums       the hidden state's sums, U h' + v
/// h_before   already multiplied by cont
void gru_forward(float* gates, const float* sums, const float* h_before, float* h,
                 std::size_t hidden);
/// gates      in: as forward left them; out: the gradient of the input's sums
/// sum_n      the last row of forward's `sums`
/// dsums      out: the gradient of the hidden state's sums
/// dh_before  out: the gradient of h_before that does not pass through the matrix product
void gru_backward(float* gates, const float* sum_n, const float* h_before, const float* dh,
                  float* dsums, float* dh_before, std::size_t hidden);

}  // namespace taut::cpu
