#pragma once

#include "common/check.hpp"
#include "common/math/activation.hpp"
#include "worker/engine/ops/elementwise.hpp"

namespace taut {

/// The arithmetic of an activation, the same for every device.
[[nodiscard]] inline math::Activation activation_function(const ActivationSpec& spec) {
  switch (spec.kind) {
    case ActivationKind::kRelu:
      return math::Relu{spec.negative_slope};
    case ActivationKind::kSigmoid:
      return math::Sigmoid{};
    case ActivationKind::kTanH:
      return math::TanH{};
    case ActivationKind::kElu:
      return math::Elu{spec.alpha};
    case ActivationKind::kExp:
      return math::Exp{spec.log_base * spec.scale, spec.log_base * spec.shift};
    case ActivationKind::kPower:
      return math::Power{spec.power, spec.scale, spec.shift};
    case ActivationKind::kLog:
      return math::Log{spec.scale, spec.shift, spec.log_base};
    case ActivationKind::kAbs:
      return math::Abs{};
    case ActivationKind::kBnll:
      return math::Bnll{};
    case ActivationKind::kClip:
      return math::Clip{spec.low, spec.high};
    case ActivationKind::kSwish:
      return math::Swish{spec.beta};
    case ActivationKind::kThreshold:
      return math::Threshold{spec.threshold};
  }
  TAUT_CHECK(false, "an activation of no kind");
}

}  // namespace taut
