#include <fmt/format.h>

#include "worker/export/onnx/layer_operators.hpp"
#include "worker/export/onnx/recurrent_parts.hpp"

namespace taut::onnx {
namespace {

/// The place of each of ONNX's gates among ours: i, o, f, c in i, f, o, g; z, r, h in r, z, n.
std::vector<std::size_t> gate_order(const RecurrentParts& parts) {
  if (parts.is_lstm()) return {0, 2, 1, 3};
  if (parts.is_gru()) return {1, 0, 2};
  return {0};
}

std::uint64_t count(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

/// A weight of all gates, [1, gates * hidden, columns].
std::string weight(LayerTranslation& layer, const RecurrentParts& parts, std::size_t place,
                   const std::string& name) {
  const std::int64_t rows = parts.gates * parts.hidden;
  const auto elements =
      static_cast<std::int64_t>(model::element_count(layer.parameter_shape(place)));
  const std::int64_t columns = elements / rows;
  return layer.derived(
      name, {1, rows, columns},
      model::in_blocks(layer.table(place), count(parts.hidden * columns), gate_order(parts)));
}

/// Both biases of all gates, [1, 2 * gates * hidden]: except for a GRU, we have only one.
std::string biases(LayerTranslation& layer, const RecurrentParts& parts, std::size_t index) {
  const std::uint64_t rows = count(parts.gates * parts.hidden);
  const auto bias = [&](std::size_t weight) {
    return model::in_blocks(layer.table(weight + 1), count(parts.hidden), gate_order(parts));
  };
  const model::TableNumbers second =
      parts.is_gru() ? bias(parts.hidden_weight(index)) : model::zeros();
  return layer.derived("bias", {1, 2 * parts.gates * parts.hidden},
                       model::joined({{rows, bias(parts.input_weight(index))}, {rows, second}}));
}

/// The sequence, with a bottom that is the same at every step appended.
std::string with_static(LayerTranslation& layer, const RecurrentParts& parts,
                        const std::string& sequence) {
  const std::string rows =
      layer.add("Flatten", {layer.bottom(parts.ports.static_bottom())}, {whole("axis", 1)});
  const std::string one = layer.add("Unsqueeze", {rows, layer.wholes({0})});
  const std::string all =
      layer.add("Expand", {one, layer.wholes({layer.bottom_shape(0)[0], 1, 1})});
  return layer.add("Concat", {sequence, all}, {whole("axis", 2)});
}

/// A recurrent layer of the net: its stacked layers, with their initial and final states.
class Stack {
 public:
  Stack(LayerTranslation& layer, const RecurrentParts& parts) : layer_(layer), parts_(parts) {
    const bool has_cont = layer.bottom_count() > 1;
    resets_ = has_cont && !model::begins_at_start(layer.graph(), layer.node().bottoms[1]);
    const bool carries =
        has_cont && layer.definition().recurrent_param().carry_state() && parts.ports.states == 0;
    extents_ = {static_cast<std::int64_t>(parts.layers), layer.bottom_extent(0, 1), parts.hidden};
    for (std::size_t k = 0; k < parts.state_count(); ++k) {
      if (parts.ports.states > 0) {
        begin_.push_back(layer.bottom(parts.ports.first_state_bottom() + k));
      } else if (carries) {
        begin_.push_back(layer.state_input(k == 0 ? "h_0" : "c_0", extents_));
      }
    }
    // Within a Scan the markers are applied to the states at every step.
    if (!begin_.empty() && has_cont && !resets_) mark();
  }

  void run() {
    std::string sequence = layer_.bottom(0);
    RecurrentResult result;
    std::vector<Names> ends(parts_.state_count());
    for (std::size_t i = 0; i < parts_.layers; ++i) {
      result = resets_ ? recurrent_scan(layer_, parts_, i, sequence, before(i))
                       : recurrent_operator(layer_, parts_, i, sequence, before(i));
      sequence = result.steps;
      for (std::size_t k = 0; k < ends.size(); ++k) ends[k].push_back(result.states[k]);
    }
    write_top(layer_.definition().recurrent_param().last_step() ? result.last : result.steps);
    for (std::size_t k = 0; k < ends.size() && !begin_.empty(); ++k) leave(k, ends[k]);
  }

 private:
  /// Multiplies the states with the markers of the first step: 0 starts a sequence.
  void mark() {
    const std::string first =
        layer_.add("Gather", {layer_.bottom(1), layer_.wholes({0})}, {whole("axis", 0)});
    const std::string markers = layer_.add("Unsqueeze", {first, layer_.wholes({2})});
    for (std::string& state : begin_) state = layer_.add("Mul", {state, markers});
  }

  [[nodiscard]] States before(std::size_t index) {
    if (parts_.layers == 1) return begin_;
    States states;
    const auto from = static_cast<std::int64_t>(index);
    for (const std::string& state : begin_) {
      states.push_back(layer_.add(
          "Slice", {state, layer_.wholes({from}), layer_.wholes({from + 1}), layer_.wholes({0})}));
    }
    return states;
  }

  /// After an RNN's hidden state, Caffe's tanh(W_ho h + b_o).
  void write_top(const std::string& hidden) {
    const bool transforms =
        parts_.cell == "RNN" && layer_.definition().recurrent_param().output_transform();
    if (!transforms) {
      layer_.write(0, "Identity", {hidden});
      return;
    }
    const std::size_t weight = layer_.parameter_count() - 2;
    const std::string columns =
        layer_.add("Transpose", {layer_.parameter(weight)}, {{"perm", Dims{1, 0}}});
    const std::string products = layer_.add("MatMul", {hidden, columns});
    layer_.write(0, "Tanh", {layer_.add("Add", {products, layer_.parameter(weight + 1)})});
  }

  void leave(std::size_t state, const Names& of_layers) {
    if (parts_.ports.states > 0) {
      layer_.write(1 + state, "Concat", of_layers, {whole("axis", 0)});
    } else {
      layer_.state_output(state == 0 ? "h_T" : "c_T", extents_,
                          layer_.add("Concat", of_layers, {whole("axis", 0)}));
    }
  }

  LayerTranslation& layer_;
  const RecurrentParts& parts_;
  bool resets_ = false;  // a sequence may start at any step
  std::vector<Extent> extents_;
  States begin_;  // [layers, N, hidden] each; empty: zeros
};

Result<void> recurrent(LayerTranslation& layer) {
  const RecurrentParts parts(layer);
  Stack(layer, parts).run();
  return ok();
}

constexpr LayerOperators kRecurrentOperators[]{
    {"RNN", recurrent},
    {"LSTM", recurrent},
    {"GRU", recurrent},
};

}  // namespace

RecurrentResult recurrent_operator(LayerTranslation& layer, const RecurrentParts& parts,
                                   std::size_t index, const std::string& sequence,
                                   const States& before) {
  const std::string suffix = parts.layers == 1 ? std::string() : fmt::format("_l{}", index);
  std::string inputs = sequence;
  std::string w = weight(layer, parts, parts.input_weight(index), "W" + suffix);
  if (index == 0 && parts.ports.has_static) {
    inputs = with_static(layer, parts, sequence);
    const std::string more = weight(layer, parts, RecurrentParts::static_weight(), "W_static");
    w = layer.add("Concat", {w, more}, {whole("axis", 2)});
  }
  const std::string r = weight(layer, parts, parts.hidden_weight(index), "R" + suffix);
  Names all{inputs, w, r, biases(layer, parts, index), ""};  // no sequence lengths
  all.insert(all.end(), before.begin(), before.end());
  Attributes attributes{whole("hidden_size", parts.hidden)};
  if (parts.is_gru()) attributes.push_back(whole("linear_before_reset", 1));
  const Names found = layer.add_several(parts.cell, 1 + parts.state_count(), all, attributes);
  return {.steps = layer.add("Squeeze", {found[0], layer.wholes({1})}),
          .last = layer.add("Squeeze", {found[1], layer.wholes({0})}),
          .states = {found.begin() + 1, found.end()}};
}

std::span<const LayerOperators> recurrent_operators() {
  return kRecurrentOperators;
}

}  // namespace taut::onnx
