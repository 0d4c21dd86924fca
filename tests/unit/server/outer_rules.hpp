#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace taut::test {

/// What an outer rule makes of one value, written down from the papers that update_rules.hpp names
/// and sharing no code with it. Products and sums are in its order, so that the bits are
/// comparable.
class OuterReference {
 public:
  OuterReference(std::string type, float rate, float momentum, float momentum2, float delta,
                 float rms_decay)
      : type_(std::move(type)),
        rate_(rate),
        momentum_(momentum),
        momentum2_(momentum2),
        delta_(delta),
        rms_decay_(rms_decay) {}

  /// gradient  the mean of how far the workers have gone back
  float step(float value, float gradient) {
    const float g = gradient;
    ++steps_;
    if (type_ == "SGD" && momentum_ == 0) return value - rate_ * g;
    if (type_ == "SGD") {
      a_ = momentum_ * a_ + rate_ * g;
      return value - a_;
    }
    if (type_ == "Nesterov") {
      const float before = a_;
      a_ = momentum_ * before + rate_ * g;
      return value - ((1 + momentum_) * a_ - momentum_ * before);
    }
    if (type_ == "AdaGrad") {
      a_ = a_ + g * g;
      return value - rate_ * g / (std::sqrt(a_) + delta_);
    }
    if (type_ == "RMSProp") {
      a_ = rms_decay_ * a_ + (1 - rms_decay_) * g * g;
      return value - rate_ * g / (std::sqrt(a_) + delta_);
    }
    if (type_ == "AdaDelta") {
      a_ = momentum_ * a_ + (1 - momentum_) * g * g;
      const float moved = g * std::sqrt((b_ + delta_) / (a_ + delta_));
      b_ = momentum_ * b_ + (1 - momentum_) * moved * moved;
      return value - rate_ * moved;
    }
    if (type_ == "Lion") {
      const float along = momentum_ * a_ + (1 - momentum_) * g;
      a_ = momentum2_ * a_ + (1 - momentum2_) * g;
      return value - rate_ * (along > 0 ? 1.0F : (along < 0 ? -1.0F : 0.0F));
    }
    a_ = momentum_ * a_ + (1 - momentum_) * g;
    b_ = momentum2_ * b_ + (1 - momentum2_) * g * g;
    const double first = 1 - std::pow(momentum_, steps_);
    const double second = 1 - std::pow(momentum2_, steps_);
    if (type_ == "Adam") {
      const auto correction = static_cast<float>(std::sqrt(second) / first);
      return value - rate_ * correction * a_ / (std::sqrt(b_) + delta_);
    }
    const float direction = a_ * static_cast<float>(1 / first) /
                            (std::sqrt(b_) * static_cast<float>(1 / std::sqrt(second)) + delta_);
    if (type_ == "AdamW") return value - rate_ * direction;
    // LAMB, of a slice of one value.
    const bool has_length = value != 0 && direction != 0;
    const double ratio = std::sqrt(double{value} * value / (double{direction} * direction));
    return value - rate_ * (has_length ? static_cast<float>(ratio) : 1.0F) * direction;
  }

 private:
  std::string type_;
  float rate_, momentum_, momentum2_, delta_, rms_decay_;
  float a_ = 0;
  float b_ = 0;
  double steps_ = 0;
};

}  // namespace taut::test
