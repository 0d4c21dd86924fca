#pragma once

#include <memory>
#include <string>

#include "worker/backend/backend.hpp"
#include "worker/backend/device_call.hpp"

namespace taut {

/// A backend in front of another one: every operation becomes a DeviceCall, and who derives from
/// this decides when, where and whether it is done. What it allocates may be addresses that only it
/// can turn into memory.
/// Thread    as the wrapped backend's
class WrappedBackend : public Backend {
 public:
  /// inner  outlives this
  explicit WrappedBackend(Backend& inner) : inner_(inner) {}

  /// What is done with one call; `stream` is one that make_stream() made.
  virtual void on_call(Stream& stream, DeviceCall call) = 0;

  std::string description() const override { return inner_.description(); }
  bool shares_host_memory() const override { return false; }
  void set_math(const MathOptions& options) override { inner_.set_math(options); }
  HostBuffer allocate_host(Bytes size) override { return inner_.allocate_host(size); }
  std::unique_ptr<Stream> make_stream() override { return inner_.make_stream(); }
  std::unique_ptr<Stream> make_copy_stream() override { return inner_.make_copy_stream(); }
  std::unique_ptr<Event> make_event() override { return inner_.make_event(); }
  void pin_host(std::span<std::byte> part) override { inner_.pin_host(part); }
  void unpin_host(std::span<std::byte> part) noexcept override { inner_.unpin_host(part); }

  void copy_to_device(Stream&, std::span<const float> from, DeviceSpan<float> to) override;
  void copy_to_host(Stream&, DeviceSpan<const float> from, std::span<float> to) override;
  void copy(Stream&, DeviceSpan<const float> from, DeviceSpan<float> to) override;
  void fill(Stream&, DeviceSpan<float> to, float value) override;
  void add(Stream&, DeviceSpan<const float> from, DeviceSpan<float> into) override;
  void weighted_sum(Stream&, std::span<const Term> terms, DeviceSpan<float> out) override;
  void apply_update(Stream&, const DeviceUpdate& update, std::span<const DeviceGradient> gradients,
                    DeviceSpan<float> values, std::span<const DeviceSpan<float>> state) override;
  void apply_average(Stream&, std::span<const DeviceGradient> contributions, float share,
                     DeviceSpan<float> values) override;
  double sum_of_squares(Stream&, std::span<const DeviceSpan<const float>> of) override;
  void copy_squares_to_host(Stream&, DeviceSpan<const float> of, double& into) override;
  void copy_part(Stream&, const PartCopy& part, DeviceSpan<const float> from,
                 DeviceSpan<float> to) override;
  void reshape(Stream&, const Extents& from_shape, const Extents& to_shape,
               DeviceSpan<const float> from, DeviceSpan<float> to) override;
  void write_tensor(Stream&, const Extents& shape, std::span<const float> from,
                    DeviceSpan<float> to) override;
  void read_tensor(Stream&, const Extents& shape, DeviceSpan<const float> from,
                   std::span<float> to) override;

  std::unique_ptr<LinearOp> convolution(const ConvolutionSpec&) override;
  std::unique_ptr<PoolingOp> pooling(const PoolingSpec&) override;
  std::unique_ptr<LinearOp> inner_product(const InnerProductSpec&) override;
  std::unique_ptr<ActivationOp> activation(const ActivationSpec&) override;
  std::unique_ptr<EltwiseOp> eltwise(EltwiseKind) override;
  std::unique_ptr<AffineOp> affine(const AffineSpec&) override;
  std::unique_ptr<PReluOp> prelu(const PReluSpec&) override;
  std::unique_ptr<BatchNormOp> batch_norm(const BatchNormSpec&) override;
  std::unique_ptr<LrnOp> lrn(const LrnSpec&) override;
  std::unique_ptr<ReductionOp> reduction(const ReductionSpec&) override;
  std::unique_ptr<ArgMaxOp> arg_max(const ArgMaxSpec&) override;
  std::unique_ptr<DropoutOp> dropout(const DropoutSpec&) override;
  std::unique_ptr<SoftmaxOp> softmax(const SoftmaxSpec&) override;
  std::unique_ptr<SoftmaxLossOp> softmax_loss(const SoftmaxLossSpec&) override;
  std::unique_ptr<PairLossOp> pair_loss(const PairLossSpec&) override;
  std::unique_ptr<HingeLossOp> hinge_loss(const HingeLossSpec&) override;
  std::unique_ptr<ContrastiveLossOp> contrastive_loss(const ContrastiveLossSpec&) override;
  std::unique_ptr<AccuracyOp> accuracy(const AccuracySpec&) override;
  std::unique_ptr<EmbedOp> embed(const EmbedSpec&) override;
  std::unique_ptr<PositionEmbedOp> position_embed(const SequenceShape&) override;
  std::unique_ptr<RecurrentOp> recurrent(const RecurrentSpec&) override;
  std::unique_ptr<LayerNormOp> layer_norm(const LayerNormSpec&) override;
  std::unique_ptr<GeluOp> gelu() override;
  std::unique_ptr<AttentionOp> attention(const AttentionSpec&) override;

 protected:
  [[nodiscard]] Backend& inner() { return inner_; }

 private:
  Backend& inner_;
};

}  // namespace taut
