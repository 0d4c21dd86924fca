#pragma once

#include <memory>
#include <utility>

#include "worker/layers/layer.hpp"

namespace taut::layers {

/// A layer with one bottom, one top and no parameters that runs one operation; the operation's
/// gradient needs the bottom's values.
template <class Op>
class PlainLayer final : public Layer {
 public:
  explicit PlainLayer(std::unique_ptr<Op> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& bottom = ports.bottoms[0];
    if (bottom.gradient.empty()) return;
    op_->backward(stream, bottom.value, ports.tops[0].gradient, bottom.gradient);
  }

 private:
  std::unique_ptr<Op> op_;
};

}  // namespace taut::layers
