#include "cuda/kernels/loss.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "common/check.hpp"
#include "cuda/kernels/reduce.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

cuda::Labels labels_of(DeviceSpan<const float> labels, const std::optional<std::int64_t>& ignored,
                       cuda::Fault* fault) {
  return {.at = labels.address(),
          .ignores = ignored.has_value(),
          .ignored = static_cast<float>(ignored.value_or(0)),
          .fault = fault};
}

cuda::Divisor divisor_of(Normalization normalization, std::int64_t all, std::int64_t batch) {
  switch (normalization) {
    case Normalization::kFull:
      return {.fixed = static_cast<double>(std::max<std::int64_t>(all, 1))};
    case Normalization::kValid:
      return {.counted = true};
    case Normalization::kBatchSize:
      return {.fixed = static_cast<double>(std::max<std::int64_t>(batch, 1))};
    case Normalization::kNone:
      break;
  }
  return {};
}

/// Scratch for a sum over `count` terms.
void* sum_scratch(CudaStream& stream, std::int64_t count) {
  return stream.scratch<1>({cuda::reduce_scratch({.inner = count})})[0];
}

class Softmax final : public SoftmaxOp {
 public:
  explicit Softmax(const SoftmaxSpec& spec) : view_(view_along(spec.shape, spec.axis)) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cuda::softmax_forward(on(stream).enter(), view_, bottom.address(), top.address());
  }
  void backward(Stream& stream, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    cuda::softmax_backward(on(stream).enter(), view_, top.address(), top_gradient.address(),
                           bottom_gradient.address());
  }

 private:
  cuda::AxisView view_;
};

class SoftmaxLoss final : public SoftmaxLossOp {
 public:
  SoftmaxLoss(CudaDevice& device, const SoftmaxLossSpec& spec)
      : spec_(spec),
        view_(view_along(spec.shape, spec.axis)),
        divisor_(device.allocate(Bytes(sizeof(double)), "a loss's divisor")) {
    for (std::size_t i = 0; i < spec.axis; ++i) batch_ *= spec.shape[i];
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
               DeviceSpan<float> probabilities, DeviceSpan<float> loss) override {
    TAUT_CHECK(count_of(labels) == view_.positions(), "one label for each position");
    CudaStream& own = on(stream);
    cuda::softmax_forward(own.enter(), view_, bottom.address(), probabilities.address());
    void* scratch = sum_scratch(own, view_.positions());
    cuda::softmax_loss_forward(own.enter(), view_, probabilities.address(),
                               labels_of(labels, spec_.ignore_label, own.fault()),
                               divisor_of(spec_.normalization, view_.positions(), batch_),
                               loss.address(), divisor(), scratch);
  }
  void backward(Stream& stream, DeviceSpan<const float> probabilities,
                DeviceSpan<const float> labels, float weight,
                DeviceSpan<float> bottom_gradient) override {
    cuda::softmax_loss_backward(on(stream).enter(), view_, probabilities.address(),
                                labels_of(labels, spec_.ignore_label, nullptr), weight, divisor(),
                                bottom_gradient.address());
  }

 private:
  [[nodiscard]] double* divisor() const { return divisor_.as<double>().address(); }

  SoftmaxLossSpec spec_;
  cuda::AxisView view_;
  DeviceBuffer divisor_;  // of the last forward
  std::int64_t batch_ = 1;
};

class InfogainLoss final : public InfogainLossOp {
 public:
  InfogainLoss(CudaDevice& device, const InfogainLossSpec& spec)
      : spec_(spec),
        view_(view_along(spec.shape, spec.axis)),
        divisor_(device.allocate(Bytes(sizeof(double)), "a loss's divisor")) {
    for (std::size_t i = 0; i < spec.axis; ++i) batch_ *= spec.shape[i];
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
               DeviceSpan<const float> matrix, DeviceSpan<float> probabilities,
               DeviceSpan<float> loss) override {
    TAUT_CHECK(count_of(labels) == view_.positions(), "one label for each position");
    TAUT_CHECK(count_of(matrix) == view_.length * view_.length,
               "one weight for each pair of classes");
    CudaStream& own = on(stream);
    cuda::softmax_forward(own.enter(), view_, bottom.address(), probabilities.address());
    void* scratch = sum_scratch(own, view_.positions());
    cuda::infogain_loss_forward(own.enter(), view_, probabilities.address(),
                                labels_of(labels, spec_.ignore_label, own.fault()),
                                matrix.address(),
                                divisor_of(spec_.normalization, view_.positions(), batch_),
                                loss.address(), divisor(), scratch);
  }
  void backward(Stream& stream, DeviceSpan<const float> probabilities,
                DeviceSpan<const float> labels, DeviceSpan<const float> matrix, float weight,
                DeviceSpan<float> bottom_gradient) override {
    cuda::infogain_loss_backward(on(stream).enter(), view_, probabilities.address(),
                                 labels_of(labels, spec_.ignore_label, nullptr), matrix.address(),
                                 weight, divisor(), bottom_gradient.address());
  }

 private:
  [[nodiscard]] double* divisor() const { return divisor_.as<double>().address(); }

  InfogainLossSpec spec_;
  cuda::AxisView view_;
  DeviceBuffer divisor_;  // of the last forward
  std::int64_t batch_ = 1;
};

class Accuracy final : public AccuracyOp {
 public:
  explicit Accuracy(const AccuracySpec& spec)
      : spec_(spec), view_(view_along(spec.shape, spec.axis)) {}

  void forward(Stream& stream, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
               DeviceSpan<float> accuracy, DeviceSpan<float> by_class) override {
    TAUT_CHECK(count_of(labels) == view_.positions(), "one label for each position");
    TAUT_CHECK(by_class.empty() || count_of(by_class) == view_.length,
               "one accuracy for each class");
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::accuracy_scratch(view_)});
    cuda::accuracy(own.enter(), view_, scores.address(),
                   labels_of(labels, spec_.ignore_label, own.fault()), spec_.top_k,
                   accuracy.address(), by_class.address(), scratch);
  }

 private:
  AccuracySpec spec_;
  cuda::AxisView view_;
};

class Euclidean final : public PairLossOp {
 public:
  explicit Euclidean(const PairLossSpec& spec) : batch_(static_cast<double>(spec.first[0])) {}

  void forward(Stream& stream, DeviceSpan<const float> a, DeviceSpan<const float> b,
               DeviceSpan<float> loss) override {
    CudaStream& own = on(stream);
    void* scratch = sum_scratch(own, count_of(a));
    cuda::euclidean_forward(own.enter(), a.address(), b.address(), count_of(a), batch_,
                            loss.address(), scratch);
  }
  void backward(Stream& stream, DeviceSpan<const float> a, DeviceSpan<const float> b, float weight,
                DeviceSpan<float> a_gradient, DeviceSpan<float> b_gradient) override {
    cudaStream_t queue = on(stream).enter();
    const auto scale = static_cast<float>(weight / batch_);
    if (!a_gradient.empty()) {
      cuda::euclidean_backward(queue, a.address(), b.address(), count_of(a), scale,
                               a_gradient.address());
    }
    if (!b_gradient.empty()) {
      cuda::euclidean_backward(queue, b.address(), a.address(), count_of(a), scale,
                               b_gradient.address());
    }
  }

 private:
  double batch_;
};

class SigmoidCrossEntropy final : public PairLossOp {
 public:
  SigmoidCrossEntropy(CudaDevice& device, const PairLossSpec& spec)
      : spec_(spec), divisor_(device.allocate(Bytes(sizeof(double)), "a loss's divisor")) {}

  void forward(Stream& stream, DeviceSpan<const float> a, DeviceSpan<const float> b,
               DeviceSpan<float> loss) override {
    CudaStream& own = on(stream);
    void* scratch = sum_scratch(own, count_of(a));
    cuda::sigmoid_cross_entropy_forward(
        own.enter(), a.address(), labels_of(b, spec_.ignore_label, nullptr), count_of(a),
        divisor_of(spec_.normalization, count_of(a), spec_.first[0]), loss.address(), divisor(),
        scratch);
  }
  void backward(Stream& stream, DeviceSpan<const float> a, DeviceSpan<const float> b, float weight,
                DeviceSpan<float> a_gradient, DeviceSpan<float>) override {
    if (a_gradient.empty()) return;
    cuda::sigmoid_cross_entropy_backward(on(stream).enter(), a.address(),
                                         labels_of(b, spec_.ignore_label, nullptr), count_of(a),
                                         weight, divisor(), a_gradient.address());
  }

 private:
  [[nodiscard]] double* divisor() const { return divisor_.as<double>().address(); }

  PairLossSpec spec_;
  DeviceBuffer divisor_;  // of the last forward
};

class HingeLoss final : public HingeLossOp {
 public:
  explicit HingeLoss(const HingeLossSpec& spec)
      : squared_(spec.squared),
        records_(spec.shape[0]),
        classes_(count_of(spec.shape) / spec.shape[0]) {}

  void forward(Stream& stream, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
               DeviceSpan<float> loss) override {
    CudaStream& own = on(stream);
    void* scratch = sum_scratch(own, records_ * classes_);
    cuda::hinge_forward(own.enter(), scores.address(), labels_of(labels, {}, own.fault()), records_,
                        classes_, squared_, loss.address(), scratch);
  }
  void backward(Stream& stream, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                float weight, DeviceSpan<float> scores_gradient) override {
    cuda::hinge_backward(on(stream).enter(), scores.address(), labels_of(labels, {}, nullptr),
                         records_, classes_, squared_, weight, scores_gradient.address());
  }

 private:
  bool squared_;
  std::int64_t records_;
  std::int64_t classes_;
};

class ContrastiveLoss final : public ContrastiveLossOp {
 public:
  explicit ContrastiveLoss(const ContrastiveLossSpec& spec)
      : shape_{.pairs = spec.pairs,
               .features = spec.features,
               .margin = spec.margin,
               .legacy = spec.legacy} {}

  void forward(Stream& stream, DeviceSpan<const float> a, DeviceSpan<const float> b,
               DeviceSpan<const float> similar, DeviceSpan<float> loss) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::contrastive_scratch(shape_)});
    cuda::contrastive_forward(own.enter(), shape_, a.address(), b.address(), similar.address(),
                              loss.address(), scratch);
  }
  void backward(Stream& stream, DeviceSpan<const float> a, DeviceSpan<const float> b,
                DeviceSpan<const float> similar, float weight, DeviceSpan<float> a_gradient,
                DeviceSpan<float> b_gradient) override {
    cuda::contrastive_backward(on(stream).enter(), shape_, a.address(), b.address(),
                               similar.address(), weight, a_gradient.address(),
                               b_gradient.address());
  }

 private:
  cuda::ContrastiveShape shape_;
};

class Reduction final : public ReductionOp {
 public:
  explicit Reduction(const ReductionSpec& spec)
      : of_(spec.kind == ReductionKind::kSum           ? cuda::SumOf::kValues
            : spec.kind == ReductionKind::kAbsoluteSum ? cuda::SumOf::kAbsolutes
                                                       : cuda::SumOf::kSquares),
        factor_(spec.factor) {
    for (std::size_t i = 0; i < spec.shape.size(); ++i) {
      (i < spec.axis ? rows_ : length_) *= spec.shape[i];
    }
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::row_reduction_scratch(rows_, length_)});
    cuda::row_reduction(own.enter(), of_, factor_, rows_, length_, bottom.address(), top.address(),
                        scratch);
  }
  void backward(Stream& stream, Bottom bottom, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    cuda::row_reduction_backward(on(stream).enter(), of_, factor_, rows_, length_, bottom.address(),
                                 top_gradient.address(), bottom_gradient.address());
  }

 private:
  cuda::SumOf of_;
  float factor_;
  std::int64_t rows_ = 1;
  std::int64_t length_ = 1;
};

class ArgMax final : public ArgMaxOp {
 public:
  explicit ArgMax(const ArgMaxSpec& spec) : spec_(spec) {
    if (!spec.whole_record) {
      view_ = view_along(spec.bottom, spec.axis);
      const cuda::AxisView top = view_along(spec.top, spec.axis);
      steps_ = {.outer = top.length * top.inner, .rank = top.inner, .inner = 1};
      return;
    }
    view_ = {.outer = spec.bottom[0], .length = count_of(spec.bottom) / spec.bottom[0], .inner = 1};
    // The top is [records, 1 or 2, ranks]: indices, then values.
    values_offset_ = spec.top[2];
    steps_ = {.outer = spec.top[1] * spec.top[2], .rank = 1, .inner = 0};
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    float* y = top.address();
    const bool both = spec_.output == ArgMaxOutput::kBoth;
    const bool values = spec_.output == ArgMaxOutput::kValues && !spec_.whole_record;
    cuda::arg_max(on(stream).enter(), view_, bottom.address(), spec_.top_k, steps_,
                  values ? nullptr : y,
                  both && spec_.whole_record ? y + values_offset_ : (values ? y : nullptr));
  }

 private:
  ArgMaxSpec spec_;
  cuda::AxisView view_;
  cuda::RankSteps steps_;
  std::int64_t values_offset_ = 0;
};

}  // namespace

std::unique_ptr<SoftmaxOp> make_op(CudaDevice&, const SoftmaxSpec& spec) {
  return std::make_unique<Softmax>(spec);
}
std::unique_ptr<SoftmaxLossOp> make_op(CudaDevice& device, const SoftmaxLossSpec& spec) {
  return std::make_unique<SoftmaxLoss>(device, spec);
}
std::unique_ptr<InfogainLossOp> make_op(CudaDevice& device, const InfogainLossSpec& spec) {
  return std::make_unique<InfogainLoss>(device, spec);
}
std::unique_ptr<AccuracyOp> make_op(CudaDevice&, const AccuracySpec& spec) {
  return std::make_unique<Accuracy>(spec);
}
std::unique_ptr<PairLossOp> make_op(CudaDevice& device, const PairLossSpec& spec) {
  if (spec.kind == PairLossKind::kEuclidean) return std::make_unique<Euclidean>(spec);
  return std::make_unique<SigmoidCrossEntropy>(device, spec);
}
std::unique_ptr<HingeLossOp> make_op(CudaDevice&, const HingeLossSpec& spec) {
  return std::make_unique<HingeLoss>(spec);
}
std::unique_ptr<ContrastiveLossOp> make_op(CudaDevice&, const ContrastiveLossSpec& spec) {
  return std::make_unique<ContrastiveLoss>(spec);
}
std::unique_ptr<ReductionOp> make_op(CudaDevice&, const ReductionSpec& spec) {
  return std::make_unique<Reduction>(spec);
}
std::unique_ptr<ArgMaxOp> make_op(CudaDevice&, const ArgMaxSpec& spec) {
  return std::make_unique<ArgMax>(spec);
}

}  // namespace taut::cuda_ops
