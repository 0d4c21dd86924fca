#include "worker/engine/cpu/recurrent_cells.hpp"

#include "worker/engine/cpu/vector_math.hpp"

namespace taut::cpu {

TAUT_VECTOR_LOOP void rnn_forward(float* gates, float* h, std::size_t hidden) {
#pragma GCC ivdep
  for (std::size_t k = 0; k < hidden; ++k) {
    const float value = tanh_of(gates[k]);
    gates[k] = value;
    h[k] = value;
  }
}

TAUT_VECTOR_LOOP void rnn_backward(float* gates, const float* dh, std::size_t hidden) {
#pragma GCC ivdep
  for (std::size_t k = 0; k < hidden; ++k) gates[k] = dh[k] * (1 - gates[k] * gates[k]);
}

TAUT_VECTOR_LOOP void lstm_forward(float* gates, float cont, const float* c_before, float* c,
                                   float* tanh_c, float* h, std::size_t hidden) {
  float* input = gates;
  float* forget = gates + hidden;
  float* output = gates + 2 * hidden;
  float* fresh = gates + 3 * hidden;
#pragma GCC ivdep
  for (std::size_t k = 0; k < hidden; ++k) {
    const float i = sigmoid_of(input[k]);
    const float f = sigmoid_of(forget[k]);
    const float o = sigmoid_of(output[k]);
    const float g = tanh_of(fresh[k]);
    const float state = f * cont * c_before[k] + i * g;
    const float bounded = tanh_of(state);
    input[k] = i;
    forget[k] = f;
    output[k] = o;
    fresh[k] = g;
    c[k] = state;
    tanh_c[k] = bounded;
    h[k] = o * bounded;
  }
}

TAUT_VECTOR_LOOP void lstm_backward(float* gates, float cont, const float* c_before,
                                    const float* tanh_c, const float* dh, float* dc,
                                    std::size_t hidden) {
  float* input = gates;
  float* forget = gates + hidden;
  float* output = gates + 2 * hidden;
  float* fresh = gates + 3 * hidden;
#pragma GCC ivdep
  for (std::size_t k = 0; k < hidden; ++k) {
    const float i = input[k];
    const float f = forget[k];
    const float o = output[k];
    const float g = fresh[k];
    const float bounded = tanh_c[k];
    const float d = dc[k] + dh[k] * o * (1 - bounded * bounded);
    input[k] = d * g * i * (1 - i);
    forget[k] = d * cont * c_before[k] * f * (1 - f);
    output[k] = dh[k] * bounded * o * (1 - o);
    fresh[k] = d * i * (1 - g * g);
    dc[k] = d * cont * f;
  }
}

TAUT_VECTOR_LOOP void gru_forward(float* gates, const float* sums, const float* h_before, float* h,
                                  std::size_t hidden) {
  float* reset = gates;
  float* update = gates + hidden;
  float* fresh = gates + 2 * hidden;
#pragma GCC ivdep
  for (std::size_t k = 0; k < hidden; ++k) {
    const float r = sigmoid_of(reset[k] + sums[k]);
    const float z = sigmoid_of(update[k] + sums[hidden + k]);
    const float n = tanh_of(fresh[k] + r * sums[2 * hidden + k]);
    reset[k] = r;
    update[k] = z;
    fresh[k] = n;
    h[k] = (1 - z) * n + z * h_before[k];
  }
}

TAUT_VECTOR_LOOP void gru_backward(float* gates, const float* sum_n, const float* h_before,
                                   const float* dh, float* dsums, float* dh_before,
                                   std::size_t hidden) {
  float* reset = gates;
  float* update = gates + hidden;
  float* fresh = gates + 2 * hidden;
#pragma GCC ivdep
  for (std::size_t k = 0; k < hidden; ++k) {
    const float r = reset[k];
    const float z = update[k];
    const float n = fresh[k];
    const float dn = dh[k] * (1 - z) * (1 - n * n);
    const float dr = dn * sum_n[k] * r * (1 - r);
    const float dz = dh[k] * (h_before[k] - n) * z * (1 - z);
    dh_before[k] = dh[k] * z;
    reset[k] = dr;
    update[k] = dz;
    fresh[k] = dn;
    dsums[k] = dr;
    dsums[hidden + k] = dz;
    dsums[2 * hidden + k] = dn * r;
  }
}

}  // namespace taut::cpu
