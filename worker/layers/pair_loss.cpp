#include <stdexcept>

#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Bottoms: the two compared blobs. Top: the loss.
class PairLoss final : public Layer {
 public:
  PairLoss(std::unique_ptr<PairLossOp> op, float weight) : op_(std::move(op)), weight_(weight) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, ports.bottoms[1].value, weight_,
                  ports.bottoms[0].gradient, ports.bottoms[1].gradient);
  }

 private:
  std::unique_ptr<PairLossOp> op_;
  float weight_;
};

/// Bottoms: scores, labels. Top: the loss.
class HingeLoss final : public Layer {
 public:
  HingeLoss(std::unique_ptr<HingeLossOp> op, float weight) : op_(std::move(op)), weight_(weight) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.bottoms[0].value, ports.bottoms[1].value, weight_,
                  ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<HingeLossOp> op_;
  float weight_;
};

/// Bottoms: features, features, whether they are alike. Top: the loss.
class ContrastiveLoss final : public Layer {
 public:
  ContrastiveLoss(std::unique_ptr<ContrastiveLossOp> op, float weight)
      : op_(std::move(op)), weight_(weight) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, ports.bottoms[2].value,
                 ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, ports.bottoms[1].value, ports.bottoms[2].value,
                  weight_, ports.bottoms[0].gradient, ports.bottoms[1].gradient);
  }

 private:
  std::unique_ptr<ContrastiveLossOp> op_;
  float weight_;
};

std::unique_ptr<Layer> make_euclidean_loss(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<PairLoss>(backend.make(PairLossSpec{.kind = PairLossKind::kEuclidean,
                                                              .first = setup.bottoms[0],
                                                              .second = setup.bottoms[1],
                                                              .ignore_label = std::nullopt}),
                                    setup.node.loss_weights[0]);
}

std::unique_ptr<Layer> make_sigmoid_cross_entropy_loss(Backend& backend, const LayerSetup& setup) {
  const pb::LossParameter& loss = setup.node.definition.loss_param();
  return std::make_unique<PairLoss>(
      backend.make(
          PairLossSpec{.kind = PairLossKind::kSigmoidCrossEntropy,
                       .first = setup.bottoms[0],
                       .second = setup.bottoms[1],
                       .ignore_label = ignore_label_of(loss),
                       .normalization = normalization_of(loss, Normalization::kBatchSize)}),
      setup.node.loss_weights[0]);
}

std::unique_ptr<Layer> make_hinge_loss(Backend& backend, const LayerSetup& setup) {
  const auto norm = setup.node.definition.hinge_loss_param().norm();
  return std::make_unique<HingeLoss>(
      backend.make(
          HingeLossSpec{.shape = setup.bottoms[0], .squared = norm == pb::HingeLossParameter::L2}),
      setup.node.loss_weights[0]);
}

std::unique_ptr<Layer> make_contrastive_loss(Backend& backend, const LayerSetup& setup) {
  const pb::ContrastiveLossParameter& parameter = setup.node.definition.contrastive_loss_param();
  const std::int64_t pairs = setup.bottoms[0][0];
  const auto count = static_cast<std::int64_t>(model::element_count(setup.bottoms[0]));
  return std::make_unique<ContrastiveLoss>(
      backend.make(ContrastiveLossSpec{.pairs = pairs,
                                       .features = count / pairs,
                                       .margin = parameter.margin(),
                                       .legacy = parameter.legacy_version()}),
      setup.node.loss_weights[0]);
}

}  // namespace

LayerTypes pair_loss_layers() {
  static constexpr LayerType kTypes[]{
      {"EuclideanLoss", make_euclidean_loss},
      {"SigmoidCrossEntropyLoss", make_sigmoid_cross_entropy_loss},
      {"HingeLoss", make_hinge_loss},
      {"ContrastiveLoss", make_contrastive_loss},
  };
  return kTypes;
}

}  // namespace taut::layers
