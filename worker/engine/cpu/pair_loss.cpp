#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "worker/engine/cpu/ops.hpp"

namespace taut::cpu {
namespace {

class Euclidean final : public PairLossOp {
 public:
  explicit Euclidean(const PairLossSpec& spec) : batch_(static_cast<double>(spec.first[0])) {}

  void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
               DeviceSpan<float> loss) override {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double difference = a.address()[i] - b.address()[i];
      sum += difference * difference;
    }
    *loss.address() = static_cast<float>(sum / batch_ / 2);
  }

  void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b, float weight,
                DeviceSpan<float> a_gradient, DeviceSpan<float> b_gradient) override {
    const auto scale = static_cast<float>(weight / batch_);
    const auto write = [&](const float* x, const float* y, DeviceSpan<float> gradient) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient.address()[i] = scale * (x[i] - y[i]);
      }
    };
    write(a.address(), b.address(), a_gradient);
    write(b.address(), a.address(), b_gradient);
  }

 private:
  double batch_;
};

class SigmoidCrossEntropy final : public PairLossOp {
 public:
  explicit SigmoidCrossEntropy(const PairLossSpec& spec) : spec_(spec) {}

  void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
               DeviceSpan<float> loss) override {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = a.address()[i];
      const float target = b.address()[i];
      if (ignores(spec_.ignore_label, target)) continue;
      // log(1 + exp(x)) - target x, written so that no exponential overflows.
      sum += std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))) - double{target} * x;
    }
    *loss.address() = static_cast<float>(sum / divisor(b));
  }

  void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b, float weight,
                DeviceSpan<float> a_gradient, DeviceSpan<float>) override {
    const auto scale = static_cast<float>(weight / divisor(b));
    for (std::size_t i = 0; i < a_gradient.size(); ++i) {
      const float target = b.address()[i];
      const float likely = 1 / (1 + std::exp(-a.address()[i]));
      a_gradient.address()[i] = ignores(spec_.ignore_label, target) ? 0 : scale * (likely - target);
    }
  }

 private:
  [[nodiscard]] double divisor(DeviceSpan<const float> targets) const {
    const float* first = targets.address();
    const auto counted = std::count_if(first, first + targets.size(), [&](float target) {
      return !ignores(spec_.ignore_label, target);
    });
    return loss_divisor(spec_.normalization, targets.size(), static_cast<std::size_t>(counted),
                        static_cast<std::size_t>(spec_.first[0]));
  }

  PairLossSpec spec_;
};

class HingeLoss final : public HingeLossOp {
 public:
  explicit HingeLoss(const HingeLossSpec& spec)
      : squared_(spec.squared), records_(static_cast<std::size_t>(spec.shape[0])) {
    if (is_channels_last(spec.shape)) {
      throw std::invalid_argument(
          "its scores are images; put a Flatten or an InnerProduct layer before it");
    }
  }

  void forward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
               DeviceSpan<float> loss) override {
    double sum = 0;
    for_each(scores, labels, [&](std::size_t i, float sign) {
      const double gap = std::max(1 - sign * scores.address()[i], 0.0F);
      sum += squared_ ? gap * gap : gap;
    });
    *loss.address() = static_cast<float>(sum / static_cast<double>(records_));
  }

  void backward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                float weight, DeviceSpan<float> scores_gradient) override {
    const float scale = weight / static_cast<float>(records_);
    for_each(scores, labels, [&](std::size_t i, float sign) {
      const float gap = 1 - sign * scores.address()[i];
      const float slope = squared_ ? 2 * gap : 1;
      scores_gradient.address()[i] = gap > 0 ? -sign * scale * slope : 0;
    });
  }

 private:
  /// Calls work(place, sign) for each score, with the sign that it should have.
  template <class Work>
  void for_each(DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                const Work& work) const {
    const std::size_t classes = scores.size() / records_;
    for (std::size_t record = 0; record < records_; ++record) {
      const std::size_t truth = class_of(labels.address()[record], record, classes);
      for (std::size_t k = 0; k < classes; ++k) {
        work(record * classes + k, k == truth ? 1.0F : -1.0F);
      }
    }
  }

  bool squared_;
  std::size_t records_;
};

class ContrastiveLoss final : public ContrastiveLossOp {
 public:
  explicit ContrastiveLoss(const ContrastiveLossSpec& spec) : spec_(spec) {}

  void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
               DeviceSpan<const float> similar, DeviceSpan<float> loss) override {
    double sum = 0;
    for (std::size_t pair = 0; pair < pairs(); ++pair) {
      const double square = square_distance(a, b, pair);
      if (similar.address()[pair] != 0) {
        sum += square;
      } else {
        const double gap =
            std::max(spec_.margin - (spec_.legacy ? square : std::sqrt(square)), 0.0);
        sum += spec_.legacy ? gap : gap * gap;
      }
    }
    *loss.address() = static_cast<float>(sum / static_cast<double>(pairs()) / 2);
  }

  void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                DeviceSpan<const float> similar, float weight, DeviceSpan<float> a_gradient,
                DeviceSpan<float> b_gradient) override {
    for (std::size_t pair = 0; pair < pairs(); ++pair) {
      const double slope = slope_of(square_distance(a, b, pair), similar.address()[pair] != 0);
      const auto scale = static_cast<float>(weight * slope / static_cast<double>(pairs()));
      for (std::size_t i = pair * features(); i < (pair + 1) * features(); ++i) {
        const float gradient = scale * (a.address()[i] - b.address()[i]);
        if (!a_gradient.empty()) a_gradient.address()[i] = gradient;
        if (!b_gradient.empty()) b_gradient.address()[i] = -gradient;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t pairs() const { return static_cast<std::size_t>(spec_.pairs); }
  [[nodiscard]] std::size_t features() const { return static_cast<std::size_t>(spec_.features); }

  [[nodiscard]] double square_distance(DeviceSpan<const float> a, DeviceSpan<const float> b,
                                       std::size_t pair) const {
    double square = 0;
    for (std::size_t i = pair * features(); i < (pair + 1) * features(); ++i) {
      const double difference = double{a.address()[i]} - double{b.address()[i]};
      square += difference * difference;
    }
    return square;
  }

  /// The derivative of the pair's term of the sum, halved, with respect to a - b.
  [[nodiscard]] double slope_of(double square, bool is_similar) const {
    if (is_similar) return 1;
    if (spec_.legacy) return spec_.margin > square ? -1 : 0;
    const double distance = std::sqrt(square);
    return spec_.margin > distance ? -(spec_.margin - distance) / std::max(distance, 1e-4) : 0;
  }

  ContrastiveLossSpec spec_;
};

}  // namespace

std::unique_ptr<PairLossOp> make_op(const PairLossSpec& spec) {
  if (spec.first != spec.second &&
      (is_channels_last(spec.first) || is_channels_last(spec.second))) {
    throw std::invalid_argument("images can only be compared with images; add a Reshape layer");
  }
  if (spec.kind == PairLossKind::kEuclidean) return std::make_unique<Euclidean>(spec);
  return std::make_unique<SigmoidCrossEntropy>(spec);
}

std::unique_ptr<HingeLossOp> make_op(const HingeLossSpec& spec) {
  return std::make_unique<HingeLoss>(spec);
}

std::unique_ptr<ContrastiveLossOp> make_op(const ContrastiveLossSpec& spec) {
  return std::make_unique<ContrastiveLoss>(spec);
}

}  // namespace taut::cpu
