#include "tests/twin/libraries/cudnn/recurrent_math.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "tests/twin/stream_queue.hpp"

namespace taut::twin::dnn {
namespace {

float sigmoid(float value) {
  return 1 / (1 + std::exp(-value));
}

std::vector<float> rounded(Format factor, const float* from, std::size_t count) {
  if (from == nullptr) return std::vector<float>(count, 0.0F);
  return load_factors(Format::kFloat32, factor, from, count);
}

/// All gates' matrices of one side, [gates * hidden, width].
std::vector<float> gather(const RecurrentShape& shape, const WeightPlaces& places, bool is_input,
                          const float* weights) {
  const std::size_t width = is_input ? shape.inputs : shape.hidden;
  const std::size_t count = shape.hidden * width;
  std::vector<float> all;
  all.reserve(shape.gates() * count);
  for (std::size_t gate = 0; gate < shape.gates(); ++gate) {
    const std::size_t part = places.parts[is_input ? gate : shape.gates() + gate].matrix;
    const auto matrix = rounded(shape.factor, weights + part, count);
    all.insert(all.end(), matrix.begin(), matrix.end());
  }
  return all;
}

/// [gates, hidden], zeros where the mode has none.
std::vector<float> gather_bias(const RecurrentShape& shape, const WeightPlaces& places,
                               bool is_input, const float* weights) {
  std::vector<float> all(shape.gates() * shape.hidden, 0.0F);
  for (std::size_t gate = 0; gate < shape.gates(); ++gate) {
    const std::size_t part = places.parts[is_input ? gate : shape.gates() + gate].bias;
    if (part == WeightPlaces::kNone) continue;
    std::copy_n(weights + part, shape.hidden, all.data() + gate * shape.hidden);
  }
  return all;
}

/// What goes into the gates from the hidden state, turned for the product: [hidden, gates *
/// hidden].
struct HiddenSide {
  std::vector<float> turned;
  std::vector<float> bias;
};

/// One step of one stream's unit.
struct Cell {
  float* gates;       // behind their functions; on the way in, the input's sums
  const float* from;  // the hidden state's sums and biases
  float before_h;
  float before_c;
  float* cell;       // LSTM
  float* recurrent;  // GRU
};

float step(cudnnRNNMode_t mode, std::size_t hidden, const Cell& cell) {
  float* const gates = cell.gates;
  if (mode == CUDNN_LSTM) {
    float value[4];
    for (std::size_t g = 0; g < 4; ++g) {
      const float sum = gates[g * hidden] + cell.from[g * hidden];
      value[g] = g == 2 ? std::tanh(sum) : sigmoid(sum);
      gates[g * hidden] = value[g];
    }
    *cell.cell = value[1] * cell.before_c + value[0] * value[2];
    return value[3] * std::tanh(*cell.cell);
  }
  if (mode == CUDNN_GRU) {
    const float reset = sigmoid(gates[0] + cell.from[0]);
    const float keep = sigmoid(gates[hidden] + cell.from[hidden]);
    *cell.recurrent = cell.from[2 * hidden];
    const float fresh = std::tanh(gates[2 * hidden] + reset * *cell.recurrent);
    gates[0] = reset;
    gates[hidden] = keep;
    gates[2 * hidden] = fresh;
    return (1 - keep) * fresh + keep * cell.before_h;
  }
  gates[0] = std::tanh(gates[0] + cell.from[0]);
  return gates[0];
}

/// The way back through one step of one unit.
struct BackCell {
  const float* gates;
  float before_h;
  float before_c;
  float cell;
  float recurrent;
  float dh;
  float* dc;  // LSTM: of the cell behind the step, then of that before it
  float* gradients;
  float* hidden_gradients;  // of the hidden state's sums
};

/// Returns the part of dh that bypasses the gates.
float step_back(cudnnRNNMode_t mode, std::size_t hidden, const BackCell& at) {
  const float* const g = at.gates;
  const auto set = [&](std::size_t gate, float input, float from_hidden) {
    at.gradients[gate * hidden] = input;
    at.hidden_gradients[gate * hidden] = from_hidden;
  };
  if (mode == CUDNN_LSTM) {
    const float in = g[0];
    const float forget = g[hidden];
    const float fresh = g[2 * hidden];
    const float out = g[3 * hidden];
    const float bent = std::tanh(at.cell);
    const float dc = *at.dc + at.dh * out * (1 - bent * bent);
    const float d[4] = {dc * fresh * in * (1 - in), dc * at.before_c * forget * (1 - forget),
                        dc * in * (1 - fresh * fresh), at.dh * bent * out * (1 - out)};
    for (std::size_t gate = 0; gate < 4; ++gate) set(gate, d[gate], d[gate]);
    *at.dc = dc * forget;
    return 0;
  }
  if (mode == CUDNN_GRU) {
    const float reset = g[0];
    const float keep = g[hidden];
    const float fresh = g[2 * hidden];
    const float d_fresh = at.dh * (1 - keep) * (1 - fresh * fresh);
    const float d_keep = at.dh * (at.before_h - fresh) * keep * (1 - keep);
    const float d_reset = d_fresh * at.recurrent * reset * (1 - reset);
    set(0, d_reset, d_reset);
    set(1, d_keep, d_keep);
    set(2, d_fresh, d_fresh * reset);
    return at.dh * keep;
  }
  const float d = at.dh * (1 - g[0] * g[0]);
  set(0, d, d);
  return 0;
}

/// sum over rows of left' right: [left_columns, right_columns] added to `into`.
void add_products(const std::vector<float>& left, const std::vector<float>& right, std::size_t rows,
                  std::size_t left_columns, std::size_t right_columns, float* into) {
  const auto turned = transpose(left.data(), rows, left_columns);
  multiply(left_columns, right_columns, rows, turned.data(), right.data(), into, true);
}

void add_columns(const std::vector<float>& values, std::size_t rows, std::size_t columns,
                 float* into) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < columns; ++i) into[i] += values[row * columns + i];
  }
}

/// One gate's columns of [rows, gates * hidden].
std::vector<float> gate_of(const RecurrentShape& shape, const float* from, std::size_t rows,
                           std::size_t gate) {
  std::vector<float> part(rows * shape.hidden);
  for (std::size_t row = 0; row < rows; ++row) {
    std::copy_n(from + (row * shape.gates() + gate) * shape.hidden, shape.hidden,
                part.data() + row * shape.hidden);
  }
  return part;
}

}  // namespace

std::string RecurrentShape::to_string() const {
  const char* const name = mode == CUDNN_LSTM ? "LSTM" : mode == CUDNN_GRU ? "GRU" : "RNN";
  return fmt::format("{} of {} steps, {} streams, {} inputs, {} units", name, steps, streams,
                     inputs, hidden);
}

WeightPlaces weight_places(const RecurrentShape& shape) {
  WeightPlaces places;
  const std::size_t linear = 2 * shape.gates();
  places.parts.resize(linear);
  std::vector<std::size_t> order(linear);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // One order for all layers of a run.
  static const std::size_t turn = random_number("cudnnGetRNNWeightParams", 8);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn % linear),
              order.end());
  const auto take = [&](std::size_t count) {
    const std::size_t place = places.count;
    places.count += (count + 3) / 4 * 4 + 4;  // aligned to 16 bytes, with a gap
    return place;
  };
  for (const std::size_t part : order) {
    const bool is_input = part < shape.gates();
    places.parts[part].matrix = take(shape.hidden * (is_input ? shape.inputs : shape.hidden));
    if (is_input ? shape.has_input_bias() : shape.has_hidden_bias()) {
      places.parts[part].bias = take(shape.hidden);
    }
  }
  return places;
}

std::size_t Kept::count_of(const RecurrentShape& shape) {
  const std::size_t units = shape.steps * shape.streams * shape.hidden;
  return units * (2 * shape.gates() + 2);
}

Kept Kept::at(const RecurrentShape& shape, float* begin) {
  const std::size_t units = shape.steps * shape.streams * shape.hidden;
  Kept kept;
  kept.gates = begin;
  kept.cells = kept.gates + units * shape.gates();
  kept.recurrent = kept.cells + units;
  kept.gradients = kept.recurrent + units;
  return kept;
}

void forward(const RecurrentShape& shape, const WeightPlaces& places,
             const ForwardOperands& operands, const Kept& kept) {
  const std::size_t hidden = shape.hidden;
  const std::size_t wide = shape.gates() * hidden;
  const std::size_t rows = shape.steps * shape.streams;
  const std::size_t state = shape.streams * hidden;
  const auto x = rounded(shape.factor, operands.x, rows * shape.inputs);
  const auto from_input = gather(shape, places, true, operands.weights);
  multiply(rows, wide, shape.inputs, x.data(),
           transpose(from_input.data(), wide, shape.inputs).data(), kept.gates);
  const auto input_bias = gather_bias(shape, places, true, operands.weights);
  for (std::size_t i = 0; i < rows * wide; ++i) kept.gates[i] += input_bias[i % wide];
  const auto from_hidden = gather(shape, places, false, operands.weights);
  const HiddenSide side{transpose(from_hidden.data(), wide, hidden),
                        gather_bias(shape, places, false, operands.weights)};
  std::vector<float> sums(shape.streams * wide);
  std::fill_n(kept.cells, rows * hidden, 0.0F);
  std::fill_n(kept.recurrent, rows * hidden, 0.0F);
  for (std::size_t t = 0; t < shape.steps; ++t) {
    const float* const h = t == 0 ? operands.hx : operands.y + (t - 1) * state;
    const float* const c = t == 0 ? operands.cx : kept.cells + (t - 1) * state;
    const auto before = rounded(shape.factor, h, state);
    multiply(shape.streams, wide, hidden, before.data(), side.turned.data(), sums.data());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += side.bias[i % wide];
    for (std::size_t i = 0; i < state; ++i) {
      const std::size_t stream = i / hidden;
      const std::size_t unit = i % hidden;
      const std::size_t row = t * shape.streams + stream;
      operands.y[t * state + i] = step(shape.mode, hidden,
                                       {.gates = kept.gates + row * wide + unit,
                                        .from = sums.data() + stream * wide + unit,
                                        .before_h = h == nullptr ? 0.0F : h[i],
                                        .before_c = c == nullptr ? 0.0F : c[i],
                                        .cell = kept.cells + t * state + i,
                                        .recurrent = kept.recurrent + t * state + i});
    }
  }
  const std::size_t last = (shape.steps - 1) * state;
  if (operands.hy != nullptr) std::copy_n(operands.y + last, state, operands.hy);
  if (operands.cy != nullptr) std::copy_n(kept.cells + last, state, operands.cy);
}

void backward_data(const RecurrentShape& shape, const WeightPlaces& places,
                   const BackwardOperands& operands, const Kept& kept) {
  const std::size_t hidden = shape.hidden;
  const std::size_t wide = shape.gates() * hidden;
  const std::size_t state = shape.streams * hidden;
  const auto from_hidden = gather(shape, places, false, operands.weights);
  std::vector<float> dh(state, 0.0F);
  std::vector<float> dc(state, 0.0F);
  if (operands.dhy != nullptr) dh.assign(operands.dhy, operands.dhy + state);
  if (operands.dcy != nullptr) dc.assign(operands.dcy, operands.dcy + state);
  std::vector<float> to_hidden(shape.streams * wide);
  std::vector<float> past(state);
  for (std::size_t t = shape.steps; t-- > 0;) {
    const float* const h = t == 0 ? operands.hx : operands.y + (t - 1) * state;
    const float* const c = t == 0 ? operands.cx : kept.cells + (t - 1) * state;
    for (std::size_t i = 0; i < state; ++i) {
      const std::size_t stream = i / hidden;
      const std::size_t unit = i % hidden;
      const std::size_t row = t * shape.streams + stream;
      past[i] = step_back(shape.mode, hidden,
                          {.gates = kept.gates + row * wide + unit,
                           .before_h = h == nullptr ? 0.0F : h[i],
                           .before_c = c == nullptr ? 0.0F : c[i],
                           .cell = kept.cells[t * state + i],
                           .recurrent = kept.recurrent[t * state + i],
                           .dh = dh[i] + operands.dy[t * state + i],
                           .dc = dc.data() + i,
                           .gradients = kept.gradients + row * wide + unit,
                           .hidden_gradients = to_hidden.data() + stream * wide + unit});
    }
    const auto factors = rounded(shape.factor, to_hidden.data(), to_hidden.size());
    multiply(shape.streams, hidden, wide, factors.data(), from_hidden.data(), dh.data());
    for (std::size_t i = 0; i < state; ++i) dh[i] += past[i];
  }
  const std::size_t rows = shape.steps * shape.streams;
  const auto gradients = rounded(shape.factor, kept.gradients, rows * wide);
  const auto from_input = gather(shape, places, true, operands.weights);
  multiply(rows, shape.inputs, wide, gradients.data(), from_input.data(), operands.dx);
  if (operands.dhx != nullptr) std::copy(dh.begin(), dh.end(), operands.dhx);
  if (operands.dcx != nullptr) std::copy(dc.begin(), dc.end(), operands.dcx);
}

void backward_weights(const RecurrentShape& shape, const WeightPlaces& places, const float* x,
                      const float* hx, const float* y, const Kept& kept, float* weight_gradients) {
  const std::size_t rows = shape.steps * shape.streams;
  const std::size_t hidden = shape.hidden;
  const std::size_t state = shape.streams * hidden;
  const auto inputs = rounded(shape.factor, x, rows * shape.inputs);
  auto before = rounded(shape.factor, hx, state);
  const auto outputs = rounded(shape.factor, y, rows * hidden - state);
  before.insert(before.end(), outputs.begin(), outputs.end());
  for (std::size_t gate = 0; gate < shape.gates(); ++gate) {
    const auto input_side = gate_of(shape, kept.gradients, rows, gate);
    auto hidden_side = input_side;
    if (shape.mode == CUDNN_GRU && gate == 2) {
      const auto reset = gate_of(shape, kept.gates, rows, 0);
      for (std::size_t i = 0; i < hidden_side.size(); ++i) hidden_side[i] *= reset[i];
    }
    for (const bool is_input : {true, false}) {
      const auto& part = places.parts[is_input ? gate : shape.gates() + gate];
      const auto& side = is_input ? input_side : hidden_side;
      add_products(rounded(shape.factor, side.data(), side.size()), is_input ? inputs : before,
                   rows, hidden, is_input ? shape.inputs : hidden, weight_gradients + part.matrix);
      if (part.bias == WeightPlaces::kNone) continue;
      add_columns(side, rows, hidden, weight_gradients + part.bias);
    }
  }
}

}  // namespace taut::twin::dnn
