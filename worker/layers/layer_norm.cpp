#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Parameters: scale and shift, or none.
class LayerNorm final : public Layer {
 public:
  explicit LayerNorm(std::unique_ptr<LayerNormOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, parameter(ports, 0).value,
                 parameter(ports, 1).value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, parameter(ports, 0).value, ports.tops[0].gradient,
                  parameter(ports, 0).gradient, parameter(ports, 1).gradient,
                  ports.bottoms[0].gradient);
  }

 private:
  static Parameter parameter(const Ports& ports, std::size_t index) {
    return ports.parameters.empty() ? Parameter{} : ports.parameters[index];
  }

  std::unique_ptr<LayerNormOp> op_;
};

/// Caffe's MVN: rows are the channels of each record, or the records. Tensors of images may be
/// stored in another order, so they are copied into rows first.
class Mvn final : public Layer {
 public:
  Mvn(Backend& backend, const LayerNormSpec& spec, const Extents& shape)
      : backend_(backend),
        shape_(shape),
        rows_{spec.rows, spec.columns},
        op_(backend.make(spec)),
        from_(backend.allocate_floats(model::element_count(shape), "rows of an MVN")),
        to_(backend.allocate_floats(model::element_count(shape), "rows of an MVN")) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    backend_.reshape(stream, shape_, rows_, ports.bottoms[0].value, from());
    op_->forward(stream, from(), {}, {}, to());
    backend_.reshape(stream, rows_, shape_, to(), ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    backend_.reshape(stream, shape_, rows_, ports.tops[0].gradient, from());
    op_->backward(stream, {}, {}, from(), {}, {}, to());
    backend_.reshape(stream, rows_, shape_, to(), ports.bottoms[0].gradient);
  }

 private:
  [[nodiscard]] DeviceSpan<float> from() const { return from_.as<float>(); }
  [[nodiscard]] DeviceSpan<float> to() const { return to_.as<float>(); }

  Backend& backend_;
  Extents shape_;
  Extents rows_;
  std::unique_ptr<LayerNormOp> op_;
  DeviceBuffer from_;
  DeviceBuffer to_;
};

std::unique_ptr<Layer> make_mvn(Backend& backend, const LayerSetup& setup) {
  const pb::MVNParameter& parameter = setup.node.definition.mvn_param();
  const Extents& shape = setup.bottoms[0];
  const std::size_t axis = parameter.across_channels() ? 1 : 2;
  LayerNormSpec spec{
      .rows = 1,
      .columns = 1,
      .epsilon = parameter.eps(),
      .divisor = parameter.normalize_variance() ? RowDivisor::kSumOfRoot : RowDivisor::kOne};
  for (std::size_t i = 0; i < shape.size(); ++i) (i < axis ? spec.rows : spec.columns) *= shape[i];
  return std::make_unique<Mvn>(backend, spec, shape);
}

std::unique_ptr<Layer> make_layer_norm(Backend& backend, const LayerSetup& setup) {
  const pb::LayerNormParameter& parameter = setup.node.definition.layer_norm_param();
  const Extents& shape = setup.bottoms[0];
  const std::size_t axis = axis_of(parameter.axis(), shape);
  LayerNormSpec spec{.rows = 1, .columns = 1, .epsilon = parameter.eps()};
  for (std::size_t i = 0; i < shape.size(); ++i) (i < axis ? spec.rows : spec.columns) *= shape[i];
  return std::make_unique<LayerNorm>(backend.make(spec));
}

}  // namespace

LayerTypes layer_norm_layers() {
  static constexpr LayerType kTypes[]{
      {"LayerNorm", make_layer_norm},
      {"MVN", make_mvn},
  };
  return kTypes;
}

}  // namespace taut::layers
