#include "worker/layers/layer_makers.hpp"
#include "worker/layers/plain_layer.hpp"

namespace taut::layers {
namespace {

/// It has no gradient.
class ArgMax final : public Layer {
 public:
  explicit ArgMax(std::unique_ptr<ArgMaxOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports&, Stream&) override {}

 private:
  std::unique_ptr<ArgMaxOp> op_;
};

ReductionKind kind_of(pb::ReductionParameter::ReductionOp operation) {
  switch (operation) {
    case pb::ReductionParameter::ASUM:
      return ReductionKind::kAbsoluteSum;
    case pb::ReductionParameter::SUMSQ:
      return ReductionKind::kSquareSum;
    case pb::ReductionParameter::SUM:
    case pb::ReductionParameter::MEAN:
      break;
  }
  return ReductionKind::kSum;
}

std::unique_ptr<Layer> make_reduction(Backend& backend, const LayerSetup& setup) {
  const pb::ReductionParameter& parameter = setup.node.definition.reduction_param();
  float factor = parameter.coeff();
  if (parameter.operation() == pb::ReductionParameter::MEAN) {
    factor *= static_cast<float>(model::element_count(setup.tops[0])) /
              static_cast<float>(model::element_count(setup.bottoms[0]));
  }
  return std::make_unique<PlainLayer<ReductionOp>>(
      backend.make(ReductionSpec{.shape = setup.bottoms[0],
                                 .axis = axis_of(parameter.axis(), setup.bottoms[0]),
                                 .kind = kind_of(parameter.operation()),
                                 .factor = factor}));
}

std::unique_ptr<Layer> make_arg_max(Backend& backend, const LayerSetup& setup) {
  const pb::ArgMaxParameter& parameter = setup.node.definition.argmax_param();
  ArgMaxSpec spec{.bottom = setup.bottoms[0], .top = setup.tops[0]};
  spec.top_k = parameter.top_k();
  if (parameter.has_axis()) {
    spec.axis = axis_of(parameter.axis(), setup.bottoms[0]);
    spec.output = parameter.out_max_val() ? ArgMaxOutput::kValues : ArgMaxOutput::kIndices;
  } else {
    spec.whole_record = true;
    spec.output = parameter.out_max_val() ? ArgMaxOutput::kBoth : ArgMaxOutput::kIndices;
  }
  return std::make_unique<ArgMax>(backend.make(spec));
}

}  // namespace

LayerTypes reduction_layers() {
  static constexpr LayerType kTypes[]{
      {"Reduction", make_reduction},
      {"ArgMax", make_arg_max},
  };
  return kTypes;
}

}  // namespace taut::layers
