#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Parameters: the running sums of mean and variance, and the sum of their weights. An averaged
/// table gets new values instead of a gradient.
/// Source    Caffe, src/caffe/layers/batch_norm_layer.cpp
class BatchNorm final : public Layer {
 public:
  BatchNorm(Backend& backend, const Extents& shape, const pb::BatchNormParameter& parameter)
      : backend_(backend),
        op_(backend.make(BatchNormSpec{.shape = shape, .epsilon = parameter.eps()})),
        fraction_(parameter.moving_average_fraction()),
        mean_(backend.allocate_floats(static_cast<std::size_t>(shape[1]), "a batch's means")),
        variance_(
            backend.allocate_floats(static_cast<std::size_t>(shape[1]), "a batch's variances")),
        one_(backend.allocate_floats(1, "the weight of a batch")) {
    const auto count =
        static_cast<float>(model::element_count(shape)) / static_cast<float>(shape[1]);
    unbiased_ = count > 1 ? count / (count - 1) : 1;
    const std::unique_ptr<Stream> stream = backend.make_stream();
    backend.fill(*stream, one_.as<float>(), 1);
    stream->finish();
  }

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value, mean_.as<float>(),
                 variance_.as<float>());
  }

  void backward(const Ports& ports, Stream& stream) override {
    move(stream, ports.parameters[0], mean_.as<float>(), 1);
    move(stream, ports.parameters[1], variance_.as<float>(), unbiased_);
    move(stream, ports.parameters[2], one_.as<float>(), 1);
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.tops[0].value, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  /// The decayed sum plus the newest numbers.
  void move(Stream& stream, const Parameter& sum, DeviceSpan<const float> newest, float factor) {
    if (sum.gradient.empty()) return;
    const Term terms[] = {{sum.value, fraction_}, {newest, factor}};
    backend_.weighted_sum(stream, terms, sum.gradient);
  }

  Backend& backend_;
  std::unique_ptr<BatchNormOp> op_;
  float fraction_;
  float unbiased_ = 1;  // from a variance divided by the count to one divided by one less
  DeviceBuffer mean_;
  DeviceBuffer variance_;
  DeviceBuffer one_;
};

/// With the kept statistics: testing, and training that does not change them.
class KeptBatchNorm final : public Layer {
 public:
  explicit KeptBatchNorm(std::unique_ptr<BatchNormOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward_kept(stream, ports.bottoms[0].value, ports.parameters[0].value,
                      ports.parameters[1].value, ports.parameters[2].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward_kept(stream, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<BatchNormOp> op_;
};

std::unique_ptr<Layer> make_batch_norm(Backend& backend, const LayerSetup& setup) {
  const pb::BatchNormParameter& parameter = setup.node.definition.batch_norm_param();
  const bool kept =
      parameter.has_use_global_stats() ? parameter.use_global_stats() : !setup.training;
  if (!kept) return std::make_unique<BatchNorm>(backend, setup.bottoms[0], parameter);
  return std::make_unique<KeptBatchNorm>(
      backend.make(BatchNormSpec{.shape = setup.bottoms[0], .epsilon = parameter.eps()}));
}

}  // namespace

LayerTypes batch_norm_layers() {
  static constexpr LayerType kTypes[]{
      {"BatchNorm", make_batch_norm},
  };
  return kTypes;
}

}  // namespace taut::layers
