#pragma once

#include <cstddef>

#include "proto/net.pb.h"

namespace taut::model {

/// The order of the blobs of an RNN, LSTM or GRU. Bottoms: x, cont, x_static, then the states
/// before the first step; tops: the output, then the states after the last one.
/// Source    Caffe, src/caffe/layers/recurrent_layer.cpp
struct RecurrentPorts {
  bool has_static = false;
  std::size_t states = 0;  // states that are bottoms and tops: h, and an LSTM's c; 0: none

  [[nodiscard]] constexpr std::size_t static_bottom() const { return 2; }
  [[nodiscard]] constexpr std::size_t first_state_bottom() const { return has_static ? 3 : 2; }
};

[[nodiscard]] inline RecurrentPorts recurrent_ports(const pb::LayerParameter& layer) {
  RecurrentPorts ports;
  if (layer.recurrent_param().expose_hidden()) ports.states = layer.type() == "LSTM" ? 2 : 1;
  ports.has_static = static_cast<std::size_t>(layer.bottom_size()) > 2 + ports.states;
  return ports;
}

}  // namespace taut::model
