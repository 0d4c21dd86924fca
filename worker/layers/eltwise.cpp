#include "worker/layers/fused.hpp"
#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

class WeightedSum final : public Layer {
 public:
  WeightedSum(Backend& backend, std::vector<float> factors)
      : backend_(backend), factors_(std::move(factors)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    std::vector<Term> terms;
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      terms.push_back({ports.bottoms[i].value, factors_[i]});
    }
    backend_.weighted_sum(stream, terms, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      if (ports.bottoms[i].gradient.empty()) continue;
      const Term term{ports.tops[0].gradient, factors_[i]};
      backend_.weighted_sum(stream, {&term, 1}, ports.bottoms[i].gradient);
    }
  }

 private:
  Backend& backend_;
  std::vector<float> factors_;
};

/// A sum with the ReLU behind it.
class RectifiedSum final : public Layer {
 public:
  explicit RectifiedSum(std::unique_ptr<RectifiedSumOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.tops[0].value, ports.tops[0].gradient, ports.bottoms[0].gradient,
                  ports.bottoms[1].gradient);
  }

 private:
  std::unique_ptr<RectifiedSumOp> op_;
};

class Eltwise final : public Layer {
 public:
  explicit Eltwise(std::unique_ptr<EltwiseOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, values_of(ports), ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    for (std::size_t i = 0; i < ports.bottoms.size(); ++i) {
      if (ports.bottoms[i].gradient.empty()) continue;
      op_->backward(stream, values_of(ports), i, ports.tops[0].gradient, ports.bottoms[i].gradient);
    }
  }

 private:
  static std::vector<DeviceSpan<const float>> values_of(const Ports& ports) {
    std::vector<DeviceSpan<const float>> values;
    for (const Tensor& bottom : ports.bottoms) values.emplace_back(bottom.value);
    return values;
  }

  std::unique_ptr<EltwiseOp> op_;
};

std::vector<float> factors_of(const LayerSetup& setup) {
  const auto& given = setup.node.definition.eltwise_param().coeff();
  std::vector<float> factors(given.begin(), given.end());
  factors.resize(setup.bottoms.size(), 1.0F);
  return factors;
}

std::unique_ptr<Layer> make_eltwise(Backend& backend, const LayerSetup& setup) {
  const pb::EltwiseParameter& parameter = setup.node.definition.eltwise_param();
  if (parameter.operation() == pb::EltwiseParameter::SUM) {
    return std::make_unique<WeightedSum>(backend, factors_of(setup));
  }
  const bool is_product = parameter.operation() == pb::EltwiseParameter::PROD;
  return std::make_unique<Eltwise>(
      backend.make(EltwiseSpec{is_product ? EltwiseKind::kProduct : EltwiseKind::kMax}));
}

}  // namespace

std::unique_ptr<Layer> make_rectified_sum(FusingBackend& fused, const LayerSetup& setup) {
  const std::vector<float> factors = factors_of(setup);
  return std::make_unique<RectifiedSum>(
      fused.make_fused(RectifiedSumSpec{{factors[0], factors[1]}}));
}

LayerTypes eltwise_layers() {
  static constexpr LayerType kTypes[]{
      {"Eltwise", make_eltwise},
  };
  return kTypes;
}

}  // namespace taut::layers
