#include "worker/layers/fused.hpp"
#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// The batch's statistics, and the running sums that they are added to: the parameters of a
/// BatchNorm, averaged tables that get new values instead of gradients.
/// Source    Caffe, src/caffe/layers/batch_norm_layer.cpp
class Statistics {
 public:
  Statistics(Backend& backend, const Extents& shape, const pb::BatchNormParameter& parameter)
      : backend_(backend),
        fraction_(parameter.moving_average_fraction()),
        mean_(backend.allocate_floats(static_cast<std::size_t>(shape[1]), "a batch's means")),
        variance_(
            backend.allocate_floats(static_cast<std::size_t>(shape[1]), "a batch's variances")) {
    const auto count =
        static_cast<float>(model::element_count(shape)) / static_cast<float>(shape[1]);
    unbiased_ = count > 1 ? count / (count - 1) : 1;
    if (FusingBackend* const fused = fusing(backend)) {
      sums_ = fused->make_fused(RunningStatisticsSpec{
          .channels = shape[1], .fraction = fraction_, .unbiased = unbiased_});
      return;
    }
    one_ = backend.allocate_floats(1, "the weight of a batch");
    const std::unique_ptr<Stream> stream = backend.make_stream();
    backend.fill(*stream, one_.as<float>(), 1);
    stream->finish();
  }

  [[nodiscard]] DeviceSpan<float> mean() const { return mean_.as<float>(); }
  [[nodiscard]] DeviceSpan<float> variance() const { return variance_.as<float>(); }

  /// The decayed sums plus the newest numbers.
  void add_to(std::span<const Parameter> sums, Stream& stream) {
    if (sums_) {
      sums_->backward(stream, mean(), variance(), sums[0].value, sums[1].value, sums[2].value,
                      sums[0].gradient, sums[1].gradient, sums[2].gradient);
      return;
    }
    move(stream, sums[0], mean(), 1);
    move(stream, sums[1], variance(), unbiased_);
    move(stream, sums[2], one_.as<float>(), 1);
  }

 private:
  void move(Stream& stream, const Parameter& sum, DeviceSpan<const float> newest, float factor) {
    if (sum.gradient.empty()) return;
    const Term terms[] = {{sum.value, fraction_}, {newest, factor}};
    backend_.weighted_sum(stream, terms, sum.gradient);
  }

  Backend& backend_;
  std::unique_ptr<RunningStatisticsOp> sums_;  // nullptr: the sums are computed one by one
  float fraction_;
  float unbiased_ = 1;  // the factor count / (count - 1) of a variance
  DeviceBuffer mean_;
  DeviceBuffer variance_;
  DeviceBuffer one_;
};

/// A BatchNorm with the batch's statistics.
class BatchNorm final : public Layer {
 public:
  BatchNorm(Backend& backend, const Extents& shape, const pb::BatchNormParameter& parameter)
      : op_(backend.make(BatchNormSpec{.shape = shape, .epsilon = parameter.eps()})),
        statistics_(backend, shape, parameter) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value, statistics_.mean(),
                 statistics_.variance());
  }
  void backward(const Ports& ports, Stream& stream) override {
    statistics_.add_to(ports.parameters, stream);
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.tops[0].value, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<BatchNormOp> op_;
  Statistics statistics_;
};

/// The running sums of a BatchNorm; ScaledBatchNorm computes the rest.
class StatisticsOnly final : public Layer {
 public:
  explicit StatisticsOnly(std::shared_ptr<Statistics> statistics)
      : statistics_(std::move(statistics)) {}

  void forward(const Ports&, Stream&, Clock) override {}
  void backward(const Ports& ports, Stream& stream) override {
    statistics_->add_to(ports.parameters, stream);
  }

 private:
  std::shared_ptr<Statistics> statistics_;
};

/// A BatchNorm, the Scale behind it, and optionally a ReLU. Its bottom is the BatchNorm's, its
/// parameters and its top are the Scale's.
class ScaledBatchNorm final : public Layer {
 public:
  ScaledBatchNorm(std::unique_ptr<ScaledBatchNormOp> op, std::shared_ptr<Statistics> statistics)
      : op_(std::move(op)), statistics_(std::move(statistics)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.parameters[0].value, summands(ports).value,
                 ports.tops[0].value, statistics_->mean(), statistics_->variance());
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, ports.parameters[0].value, summands(ports).value,
                  ports.tops[0].gradient, ports.bottoms[0].gradient, ports.parameters[0].gradient,
                  summands(ports).gradient);
  }

 private:
  static Parameter summands(const Ports& ports) {
    return ports.parameters.size() > 1 ? ports.parameters[1] : Parameter{};
  }

  std::unique_ptr<ScaledBatchNormOp> op_;
  std::shared_ptr<Statistics> statistics_;
};

/// A BatchNorm with the kept statistics: for testing, and training that does not change them.
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
  if (has_kept_statistics(setup.node, setup.training)) {
    return std::make_unique<KeptBatchNorm>(
        backend.make(BatchNormSpec{.shape = setup.bottoms[0], .epsilon = parameter.eps()}));
  }
  return std::make_unique<BatchNorm>(backend, setup.bottoms[0], parameter);
}

}  // namespace

bool has_kept_statistics(const model::Node& node, bool training) {
  const pb::BatchNormParameter& parameter = node.definition.batch_norm_param();
  return parameter.has_use_global_stats() ? parameter.use_global_stats() : !training;
}

ScaledBatchNormLayers make_scaled_batch_norm(Backend& backend, FusingBackend& fused,
                                             const LayerSetup& norm, bool relu) {
  const pb::BatchNormParameter& parameter = norm.node.definition.batch_norm_param();
  const auto statistics = std::make_shared<Statistics>(backend, norm.bottoms[0], parameter);
  auto op = fused.make_fused(
      ScaledBatchNormSpec{.shape = norm.bottoms[0], .epsilon = parameter.eps(), .relu = relu});
  return {.norm = std::make_unique<StatisticsOnly>(statistics),
          .scale = std::make_unique<ScaledBatchNorm>(std::move(op), statistics)};
}

LayerTypes batch_norm_layers() {
  static constexpr LayerType kTypes[]{
      {"BatchNorm", make_batch_norm},
  };
  return kTypes;
}

}  // namespace taut::layers
