#include <type_traits>
#include <utility>

#include "worker/backend/wrapped_backend.hpp"
#include "worker/backend/wrapped_call.hpp"

// Every operation of a wrapped backend: the wrapped one, called through WrappedBackend::on_call.
namespace taut {
namespace {

using wrapped::make_call;
using wrapped::ReadList;
using wrapped::Updated;
using Read = DeviceSpan<const float>;
using Written = DeviceSpan<float>;

/// An operation whose calls go through on_call(), with what it needs besides its operands as operands
/// too.
template <class Op>
class Through : public Op {
 public:
  Through(WrappedBackend& backend, std::unique_ptr<Op> op) : backend_(backend), op_(std::move(op)) {
    const OpMemory own = op_->own_memory();
    kept_block_ = backend.allocate(own.kept, "workspace that a forward leaves to its backward");
    scratch_block_ = backend.allocate(own.scratch, "workspace of an operation");
    kept_ = kept_block_.template as<float>();
    scratch_ = scratch_block_.template as<float>();
  }

  // A backend in front of this one lends as well.
  OpMemory own_memory() const override { return op_->own_memory(); }
  void lend(Written kept, Written scratch) override {
    kept_ = kept;
    scratch_ = scratch;
  }

 protected:
  /// A call that makes anew what the operation keeps.
  template <class Method, class... Arguments>
  void forward_call(std::string_view what, Method method, Stream& stream, Arguments... arguments) {
    call(what, OperandUse::kWrite, method, stream, std::move(arguments)...);
  }
  /// A call that works with what the last forward left.
  template <class Method, class... Arguments>
  void backward_call(std::string_view what, Method method, Stream& stream, Arguments... arguments) {
    call(what, OperandUse::kReadWrite, method, stream, std::move(arguments)...);
  }

 private:
  template <class Method, class... Arguments>
  void call(std::string_view what, OperandUse kept, Method method, Stream& stream,
            Arguments... arguments) {
    const auto run = [op = op_, method](Stream& on, Written own, Written scratch,
                                        const auto&... at) {
      op->lend(own, scratch);
      ((*op).*method)(on, at...);
    };
    backend_.on_call(stream,
                     make_call(what, run, Updated{kept_, kept}, scratch_, std::move(arguments)...));
  }

  WrappedBackend& backend_;
  std::shared_ptr<Op> op_;  // a call may be done later
  DeviceBuffer kept_block_;
  DeviceBuffer scratch_block_;
  Written kept_;
  Written scratch_;
};

class WrappedLinear final : public Through<LinearOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read weights, Read bias, Written top) override {
    forward_call("product forward", &LinearOp::forward, s, bottom, weights, bias, top);
  }
  void backward_bottom(Stream& s, Read dy, Read weights, Written dx) override {
    backward_call("product backward to the bottom", &LinearOp::backward_bottom, s, dy, weights, dx);
  }
  void backward_parameters(Stream& s, Read bottom, Read dy, Written dw, Written db) override {
    if (dw.empty() && db.empty()) return;
    backward_call("product backward to the weights", &LinearOp::backward_parameters, s, bottom, dy,
                  dw, db);
  }
};

class WrappedPooling final : public Through<PoolingOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("pooling forward", &PoolingOp::forward, s, bottom, top);
  }
  void backward(Stream& s, Read dy, Written dx) override {
    backward_call("pooling backward", &PoolingOp::backward, s, dy, dx);
  }
};

class WrappedActivation final : public Through<ActivationOp> {
 public:
  WrappedActivation(WrappedBackend& backend, std::unique_ptr<ActivationOp> op, bool reads_bottom)
      : Through(backend, std::move(op)), reads_bottom_(reads_bottom) {}
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("activation forward", &ActivationOp::forward, s, bottom, top);
  }
  void backward(Stream& s, Read bottom, Read top, Read dy, Written dx) override {
    (reads_bottom_ ? top : bottom) = {};
    backward_call("activation backward", &ActivationOp::backward, s, bottom, top, dy, dx);
  }

 private:
  bool reads_bottom_;
};

class WrappedEltwise final : public Through<EltwiseOp> {
 public:
  using Through::Through;
  void forward(Stream& s, std::span<const Read> bottoms, Written top) override {
    forward_call("eltwise forward", &EltwiseOp::forward, s,
                 ReadList(bottoms.begin(), bottoms.end()), top);
  }
  void backward(Stream& s, std::span<const Read> bottoms, std::size_t which, Read dy,
                Written dx) override {
    backward_call("eltwise backward", &EltwiseOp::backward, s,
                  ReadList(bottoms.begin(), bottoms.end()), which, dy, dx);
  }
};

class WrappedAffine final : public Through<AffineOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read factors, Read summands, Written top) override {
    forward_call("affine forward", &AffineOp::forward, s, bottom, factors, summands, top);
  }
  void backward(Stream& s, Read bottom, Read factors, Read dy, Written dx, Written factors_gradient,
                Written summands_gradient) override {
    if (dx.empty() && factors_gradient.empty() && summands_gradient.empty()) return;
    if (factors_gradient.empty()) bottom = {};
    backward_call("affine backward", &AffineOp::backward, s, bottom, factors, dy, dx,
                  factors_gradient, summands_gradient);
  }
};

class WrappedPRelu final : public Through<PReluOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read slopes, Written top) override {
    forward_call("PReLU forward", &PReluOp::forward, s, bottom, slopes, top);
  }
  void backward(Stream& s, Read bottom, Read slopes, Read dy, Written dx, Written ds) override {
    backward_call("PReLU backward", &PReluOp::backward, s, bottom, slopes, dy, dx, ds);
  }
};

class WrappedBatchNorm final : public Through<BatchNormOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Written top, Written mean, Written variance) override {
    forward_call("batch normalisation forward", &BatchNormOp::forward, s, bottom, top, mean,
                 variance);
  }
  void backward(Stream& s, Read top, Read dy, Written dx) override {
    backward_call("batch normalisation backward", &BatchNormOp::backward, s, top, dy, dx);
  }
  void forward_kept(Stream& s, Read bottom, Read mean, Read variance, Read weight,
                    Written top) override {
    forward_call("batch normalisation forward", &BatchNormOp::forward_kept, s, bottom, mean,
                 variance, weight, top);
  }
  void backward_kept(Stream& s, Read dy, Written dx) override {
    backward_call("batch normalisation backward", &BatchNormOp::backward_kept, s, dy, dx);
  }
};

class WrappedLrn final : public Through<LrnOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("LRN forward", &LrnOp::forward, s, bottom, top);
  }
  void backward(Stream& s, Read bottom, Read dy, Written dx) override {
    backward_call("LRN backward", &LrnOp::backward, s, bottom, dy, dx);
  }
};

class WrappedReduction final : public Through<ReductionOp> {
 public:
  WrappedReduction(WrappedBackend& backend, std::unique_ptr<ReductionOp> op, bool reads_bottom)
      : Through(backend, std::move(op)), reads_bottom_(reads_bottom) {}
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("reduction forward", &ReductionOp::forward, s, bottom, top);
  }
  void backward(Stream& s, Read bottom, Read dy, Written dx) override {
    if (!reads_bottom_) bottom = {};
    backward_call("reduction backward", &ReductionOp::backward, s, bottom, dy, dx);
  }

 private:
  bool reads_bottom_;
};

class WrappedArgMax final : public Through<ArgMaxOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("arg-max", &ArgMaxOp::forward, s, bottom, top);
  }
};

class WrappedDropout final : public Through<DropoutOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Clock clock, Read bottom, Written top) override {
    forward_call("dropout forward", &DropoutOp::forward, s, clock, bottom, top);
  }
  void backward(Stream& s, Read dy, Written dx) override {
    backward_call("dropout backward", &DropoutOp::backward, s, dy, dx);
  }
};

class WrappedSoftmax final : public Through<SoftmaxOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("softmax forward", &SoftmaxOp::forward, s, bottom, top);
  }
  void backward(Stream& s, Read top, Read dy, Written dx) override {
    backward_call("softmax backward", &SoftmaxOp::backward, s, top, dy, dx);
  }
};

class WrappedSoftmaxLoss final : public Through<SoftmaxLossOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read labels, Written probabilities, Written loss) override {
    forward_call("softmax loss forward", &SoftmaxLossOp::forward, s, bottom, labels, probabilities,
                 loss);
  }
  void backward(Stream& s, Read probabilities, Read labels, float weight, Written dx) override {
    backward_call("softmax loss backward", &SoftmaxLossOp::backward, s, probabilities, labels,
                  weight, dx);
  }
};

class WrappedPairLoss final : public Through<PairLossOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read a, Read b, Written loss) override {
    forward_call("pair loss forward", &PairLossOp::forward, s, a, b, loss);
  }
  void backward(Stream& s, Read a, Read b, float weight, Written da, Written db) override {
    backward_call("pair loss backward", &PairLossOp::backward, s, a, b, weight, da, db);
  }
};

class WrappedHingeLoss final : public Through<HingeLossOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read scores, Read labels, Written loss) override {
    forward_call("hinge loss forward", &HingeLossOp::forward, s, scores, labels, loss);
  }
  void backward(Stream& s, Read scores, Read labels, float weight, Written dx) override {
    backward_call("hinge loss backward", &HingeLossOp::backward, s, scores, labels, weight, dx);
  }
};

class WrappedContrastiveLoss final : public Through<ContrastiveLossOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read a, Read b, Read alike, Written loss) override {
    forward_call("contrastive loss forward", &ContrastiveLossOp::forward, s, a, b, alike, loss);
  }
  void backward(Stream& s, Read a, Read b, Read alike, float weight, Written da,
                Written db) override {
    backward_call("contrastive loss backward", &ContrastiveLossOp::backward, s, a, b, alike, weight,
                  da, db);
  }
};

class WrappedAccuracy final : public Through<AccuracyOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read scores, Read labels, Written accuracy, Written by_class) override {
    forward_call("accuracy", &AccuracyOp::forward, s, scores, labels, accuracy, by_class);
  }
};

class WrappedEmbed final : public Through<EmbedOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read weights, Read bias, Written top) override {
    forward_call("embedding forward", &EmbedOp::forward, s, bottom, weights, bias, top);
  }
  void backward(Stream& s, Read bottom, Read dy, Written dw, Written db) override {
    backward_call("embedding backward", &EmbedOp::backward, s, bottom, dy, dw, db);
  }
};

class WrappedPositionEmbed final : public Through<PositionEmbedOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read weights, Written top) override {
    forward_call("position embedding forward", &PositionEmbedOp::forward, s, bottom, weights, top);
  }
  void backward(Stream& s, Read dy, Written dw, Written dx) override {
    backward_call("position embedding backward", &PositionEmbedOp::backward, s, dy, dw, dx);
  }
};

class WrappedRecurrent final : public Through<RecurrentOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read cont, Read constant,
               const RecurrentParameters<const float>& values, Written state,
               Written top) override {
    forward_call("recurrence forward", &RecurrentOp::forward, s, bottom, cont, constant, values,
                 Updated{state}, top);
  }
  void backward(Stream& s, Read bottom, Read cont, const RecurrentParameters<const float>& values,
                Read dy, const RecurrentParameters<float>& gradients, Written d_constant,
                Written d_state, Written dx) override {
    backward_call("recurrence backward", &RecurrentOp::backward, s, bottom, cont, values, dy,
                  gradients, d_constant, Updated{d_state}, dx);
  }
};

class WrappedLayerNorm final : public Through<LayerNormOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Read weight, Read bias, Written top) override {
    forward_call("layer normalisation forward", &LayerNormOp::forward, s, bottom, weight, bias,
                 top);
  }
  void backward(Stream& s, Read bottom, Read weight, Read dy, Written dw, Written db,
                Written dx) override {
    backward_call("layer normalisation backward", &LayerNormOp::backward, s, bottom, weight, dy, dw,
                  db, dx);
  }
};

class WrappedGelu final : public Through<GeluOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Read bottom, Written top) override {
    forward_call("GELU forward", &GeluOp::forward, s, bottom, top);
  }
  void backward(Stream& s, Read bottom, Read dy, Written dx) override {
    backward_call("GELU backward", &GeluOp::backward, s, bottom, dy, dx);
  }
};

class WrappedAttention final : public Through<AttentionOp> {
 public:
  using Through::Through;
  void forward(Stream& s, Clock clock, Read qkv, Read mask, Written top) override {
    forward_call("attention forward", &AttentionOp::forward, s, clock, qkv, mask, top);
  }
  void backward(Stream& s, Read qkv, Read dy, Written dqkv) override {
    backward_call("attention backward", &AttentionOp::backward, s, qkv, dy, dqkv);
  }
};

}  // namespace

std::unique_ptr<LinearOp> WrappedBackend::convolution(const ConvolutionSpec& spec) {
  return std::make_unique<WrappedLinear>(*this, inner_.convolution(spec));
}
std::unique_ptr<PoolingOp> WrappedBackend::pooling(const PoolingSpec& spec) {
  return std::make_unique<WrappedPooling>(*this, inner_.pooling(spec));
}
std::unique_ptr<LinearOp> WrappedBackend::inner_product(const InnerProductSpec& spec) {
  return std::make_unique<WrappedLinear>(*this, inner_.inner_product(spec));
}
std::unique_ptr<ActivationOp> WrappedBackend::activation(const ActivationSpec& spec) {
  return std::make_unique<WrappedActivation>(*this, inner_.activation(spec),
                                             reads_bottom(spec.kind));
}
std::unique_ptr<EltwiseOp> WrappedBackend::eltwise(EltwiseKind kind) {
  return std::make_unique<WrappedEltwise>(*this, inner_.eltwise(kind));
}
std::unique_ptr<AffineOp> WrappedBackend::affine(const AffineSpec& spec) {
  return std::make_unique<WrappedAffine>(*this, inner_.affine(spec));
}
std::unique_ptr<PReluOp> WrappedBackend::prelu(const PReluSpec& spec) {
  return std::make_unique<WrappedPRelu>(*this, inner_.prelu(spec));
}
std::unique_ptr<BatchNormOp> WrappedBackend::batch_norm(const BatchNormSpec& spec) {
  return std::make_unique<WrappedBatchNorm>(*this, inner_.batch_norm(spec));
}
std::unique_ptr<LrnOp> WrappedBackend::lrn(const LrnSpec& spec) {
  return std::make_unique<WrappedLrn>(*this, inner_.lrn(spec));
}
std::unique_ptr<ReductionOp> WrappedBackend::reduction(const ReductionSpec& spec) {
  return std::make_unique<WrappedReduction>(*this, inner_.reduction(spec),
                                            spec.kind != ReductionKind::kSum);
}
std::unique_ptr<ArgMaxOp> WrappedBackend::arg_max(const ArgMaxSpec& spec) {
  return std::make_unique<WrappedArgMax>(*this, inner_.arg_max(spec));
}
std::unique_ptr<DropoutOp> WrappedBackend::dropout(const DropoutSpec& spec) {
  return std::make_unique<WrappedDropout>(*this, inner_.dropout(spec));
}
std::unique_ptr<SoftmaxOp> WrappedBackend::softmax(const SoftmaxSpec& spec) {
  return std::make_unique<WrappedSoftmax>(*this, inner_.softmax(spec));
}
std::unique_ptr<SoftmaxLossOp> WrappedBackend::softmax_loss(const SoftmaxLossSpec& spec) {
  return std::make_unique<WrappedSoftmaxLoss>(*this, inner_.softmax_loss(spec));
}
std::unique_ptr<PairLossOp> WrappedBackend::pair_loss(const PairLossSpec& spec) {
  return std::make_unique<WrappedPairLoss>(*this, inner_.pair_loss(spec));
}
std::unique_ptr<HingeLossOp> WrappedBackend::hinge_loss(const HingeLossSpec& spec) {
  return std::make_unique<WrappedHingeLoss>(*this, inner_.hinge_loss(spec));
}
std::unique_ptr<ContrastiveLossOp> WrappedBackend::contrastive_loss(
    const ContrastiveLossSpec& spec) {
  return std::make_unique<WrappedContrastiveLoss>(*this, inner_.contrastive_loss(spec));
}
std::unique_ptr<AccuracyOp> WrappedBackend::accuracy(const AccuracySpec& spec) {
  return std::make_unique<WrappedAccuracy>(*this, inner_.accuracy(spec));
}
std::unique_ptr<EmbedOp> WrappedBackend::embed(const EmbedSpec& spec) {
  return std::make_unique<WrappedEmbed>(*this, inner_.embed(spec));
}
std::unique_ptr<PositionEmbedOp> WrappedBackend::position_embed(const SequenceShape& shape) {
  return std::make_unique<WrappedPositionEmbed>(*this, inner_.position_embed(shape));
}
std::unique_ptr<RecurrentOp> WrappedBackend::recurrent(const RecurrentSpec& spec) {
  return std::make_unique<WrappedRecurrent>(*this, inner_.recurrent(spec));
}
std::unique_ptr<LayerNormOp> WrappedBackend::layer_norm(const LayerNormSpec& spec) {
  return std::make_unique<WrappedLayerNorm>(*this, inner_.layer_norm(spec));
}
std::unique_ptr<GeluOp> WrappedBackend::gelu() {
  return std::make_unique<WrappedGelu>(*this, inner_.gelu());
}
std::unique_ptr<AttentionOp> WrappedBackend::attention(const AttentionSpec& spec) {
  return std::make_unique<WrappedAttention>(*this, inner_.attention(spec));
}

}  // namespace taut
