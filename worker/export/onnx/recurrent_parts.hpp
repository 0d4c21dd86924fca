#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/export/onnx/layer_translation.hpp"
#include "worker/model/rules/recurrent_ports.hpp"

namespace taut::onnx {

/// The parts of an RNN, LSTM or GRU that both of its translations need.
/// Source    for cells and the order of their gates: worker/engine/ops/sequence.hpp, RecurrentOp
struct RecurrentParts {
  explicit RecurrentParts(const LayerTranslation& layer)
      : cell(layer.definition().type()),
        hidden(layer.definition().recurrent_param().num_output()),
        gates(cell == "LSTM"  ? 4
              : cell == "GRU" ? 3
                              : 1),
        layers(layer.definition().recurrent_param().num_layers()),
        ports(model::recurrent_ports(layer.definition())) {}

  std::string cell;  // its type
  std::int64_t hidden;
  std::int64_t gates;
  std::size_t layers;
  model::RecurrentPorts ports;

  [[nodiscard]] bool is_lstm() const { return cell == "LSTM"; }
  [[nodiscard]] bool is_gru() const { return cell == "GRU"; }
  /// The number of states: h, and an LSTM's c.
  [[nodiscard]] std::size_t state_count() const { return is_lstm() ? 2 : 1; }

  // The places of a layer's parameters; a bias follows its weight.
  [[nodiscard]] std::size_t input_weight(std::size_t layer) const {
    return layer * each() + (ports.has_static && layer > 0 ? 1 : 0);
  }
  [[nodiscard]] std::size_t hidden_weight(std::size_t layer) const {
    return layer * each() + (ports.has_static ? 3 : 2);
  }
  [[nodiscard]] static std::size_t static_weight() { return 2; }

 private:
  [[nodiscard]] std::size_t each() const { return is_gru() ? 4 : 3; }
};

/// The states before the first step, or after the last one.
using States = std::vector<std::string>;  // h, and an LSTM's c

/// One layer's results: its hidden state at all steps [T, N, hidden], and its last states.
struct RecurrentResult {
  std::string steps;
  std::string last;  // h of the last step [N, hidden]
  States states;     // [1, N, hidden]
};

/// Translates one layer to ONNX's own operator, for sequences that start with the batch or continue
/// through all of it.
/// before  [1, N, hidden]; empty: zeros
[[nodiscard]] RecurrentResult recurrent_operator(LayerTranslation& layer,
                                                 const RecurrentParts& parts, std::size_t index,
                                                 const std::string& sequence, const States& before);

/// Translates one layer to a Scan over its steps, for cont markers that may start a sequence
/// anywhere: none of ONNX's recurrent operators can.
[[nodiscard]] RecurrentResult recurrent_scan(LayerTranslation& layer, const RecurrentParts& parts,
                                             std::size_t index, const std::string& sequence,
                                             const States& before);

}  // namespace taut::onnx
