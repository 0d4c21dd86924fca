#include "worker/export/onnx/recurrent_parts.hpp"

namespace taut::onnx {
namespace {

/// The graph of one step. It can read the values of the enclosing graph.
class Step {
 public:
  Step(LayerTranslation& layer, const RecurrentParts& parts) : layer_(layer), parts_(parts) {
    body_.set_name(layer.definition().name() + "/step");
  }

  std::string input(const std::string& what, const std::vector<Extent>& extents) {
    std::string name = layer_.new_value(what);
    *body_.add_input() = float_value(name, extents);
    return name;
  }
  void output(const std::string& value) {
    const std::string name = layer_.new_value("next");
    add_node(body_, "Identity", name, {value}, {name}, {});
    *body_.add_output() = float_value(name, {std::string(), parts_.hidden});
  }
  std::string add(const std::string& op, const Names& inputs, const Attributes& attributes = {}) {
    return several(op, 1, inputs, attributes).front();
  }
  /// The gates of sums [N, gates * hidden].
  Names split(const std::string& sums) {
    return several(
        "Split", static_cast<std::size_t>(parts_.gates),
        {sums, layer_.wholes(Dims(static_cast<std::size_t>(parts_.gates), parts_.hidden))},
        {whole("axis", 1)});
  }
  [[nodiscard]] const GraphProto& body() const { return body_; }

 private:
  Names several(const std::string& op, std::size_t count, const Names& inputs,
                const Attributes& attributes) {
    Names names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(layer_.new_value(op));
    add_node(body_, op, names.front(), inputs, names, attributes);
    return names;
  }

  LayerTranslation& layer_;
  const RecurrentParts& parts_;
  GraphProto body_;
};

std::string transposed(LayerTranslation& layer, std::size_t parameter) {
  const model::Shape& shape = layer.parameter_shape(parameter);
  const std::string rows = layer.parameter(parameter, {shape[0], shape[1]});
  return layer.add("Transpose", {rows}, {{"perm", Dims{1, 0}}});
}

/// W x + b of all steps, including the product that is constant over them: [T, N, gates * hidden].
std::string input_sums(LayerTranslation& layer, const RecurrentParts& parts, std::size_t index,
                       const std::string& sequence) {
  const std::size_t weight = parts.input_weight(index);
  const std::string products = layer.add("MatMul", {sequence, transposed(layer, weight)});
  std::string sums = layer.add("Add", {products, layer.parameter(weight + 1)});
  if (index > 0 || !parts.ports.has_static) return sums;
  const std::string rows =
      layer.add("Flatten", {layer.bottom(parts.ports.static_bottom())}, {whole("axis", 1)});
  const std::string constant =
      layer.add("MatMul", {rows, transposed(layer, RecurrentParts::static_weight())});
  return layer.add("Add", {sums, constant});
}

/// h and c after an LSTM's step.
States lstm_step(Step& step, const std::string& sums, const std::string& c) {
  const Names gates = step.split(sums);  // i, f, o, g
  const std::string kept = step.add("Mul", {step.add("Sigmoid", {gates[1]}), c});
  const std::string fresh =
      step.add("Mul", {step.add("Sigmoid", {gates[0]}), step.add("Tanh", {gates[3]})});
  const std::string next = step.add("Add", {kept, fresh});
  const std::string bounded = step.add("Tanh", {next});
  return {step.add("Mul", {step.add("Sigmoid", {gates[2]}), bounded}), next};
}

/// h after a GRU's step.
States gru_step(Step& step, const std::string& sums, const std::string& hidden_sums,
                const std::string& h) {
  const Names x = step.split(sums);  // r, z, n
  const Names u = step.split(hidden_sums);
  const std::string r = step.add("Sigmoid", {step.add("Add", {x[0], u[0]})});
  const std::string z = step.add("Sigmoid", {step.add("Add", {x[1], u[1]})});
  const std::string n = step.add("Tanh", {step.add("Add", {x[2], step.add("Mul", {r, u[2]})})});
  // (1 - z) n + z h
  const std::string distance = step.add("Sub", {h, n});
  return {step.add("Add", {n, step.add("Mul", {z, distance})})};
}

/// [N, hidden]: zeros as wide as the sequence's batch, if the layer has no state before the first
/// step.
std::string first_state(LayerTranslation& layer, const RecurrentParts& parts,
                        const std::string& before, const std::string& sequence) {
  if (!before.empty()) return layer.add("Squeeze", {before, layer.wholes({0})});
  const std::string extents = layer.add("Shape", {sequence});
  const std::string streams =
      layer.add("Slice", {extents, layer.wholes({1}), layer.wholes({2}), layer.wholes({0})});
  const std::string shape =
      layer.add("Concat", {streams, layer.wholes({parts.hidden})}, {whole("axis", 0)});
  return layer.add("ConstantOfShape", {shape});
}

}  // namespace

RecurrentResult recurrent_scan(LayerTranslation& layer, const RecurrentParts& parts,
                               std::size_t index, const std::string& sequence,
                               const States& before) {
  const std::string sums = input_sums(layer, parts, index, sequence);
  const std::size_t weight = parts.hidden_weight(index);
  const std::string hidden_weight = transposed(layer, weight);
  const std::string across = layer.wholes({1});

  Step step(layer, parts);
  States states;
  for (std::size_t k = 0; k < parts.state_count(); ++k) {
    states.push_back(step.input("before", {std::string(), parts.hidden}));
  }
  const std::string own_sums = step.input("sums", {std::string(), parts.gates * parts.hidden});
  const std::string cont = step.input("cont", {std::string()});
  const std::string marker = step.add("Unsqueeze", {cont, across});
  for (std::string& state : states) state = step.add("Mul", {state, marker});
  const std::string products = step.add("MatMul", {states[0], hidden_weight});
  States next;
  if (parts.is_gru()) {
    const std::string hidden_sums = step.add("Add", {products, layer.parameter(weight + 1)});
    next = gru_step(step, own_sums, hidden_sums, states[0]);
  } else {
    const std::string all = step.add("Add", {own_sums, products});
    next = parts.is_lstm() ? lstm_step(step, all, states[1]) : States{step.add("Tanh", {all})};
  }
  for (const std::string& state : next) step.output(state);
  step.output(next[0]);

  Names inputs;
  for (std::size_t k = 0; k < parts.state_count(); ++k) {
    inputs.push_back(
        first_state(layer, parts, before.empty() ? std::string() : before[k], sequence));
  }
  inputs.push_back(sums);
  inputs.push_back(layer.bottom(1));
  const Names found = layer.add_several("Scan", parts.state_count() + 1, inputs,
                                        {{"body", step.body()}, whole("num_scan_inputs", 2)});
  RecurrentResult result{.steps = found.back(), .last = found[0], .states = {}};
  for (std::size_t k = 0; k < parts.state_count(); ++k) {
    result.states.push_back(layer.add("Unsqueeze", {found[k], layer.wholes({0})}));
  }
  return result;
}

}  // namespace taut::onnx
