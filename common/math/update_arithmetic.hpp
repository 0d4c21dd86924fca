#pragma once

#include <cmath>

#include "common/math/host_device.hpp"
#include "common/math/update_rule.hpp"

namespace taut::math {

// The rules on one element: each returns the new value. CPU loops and CUDA kernels run the same
// source. `gradient` is the application's whole gradient, summed and divided.

/// What weight decay adds to a gradient: L2 decay * w, L1 decay * sign(w).
TAUT_HD inline float decay_pull(const UpdateStep& step, float value) {
  if (step.l1) {
    const float sign = value > 0 ? 1.0F : (value < 0 ? -1.0F : 0.0F);
    return step.decay * sign;
  }
  return step.decay * value;
}

/// The gradient with weight decay.
TAUT_HD inline float decayed(const UpdateStep& step, float value, float gradient) {
  return gradient + decay_pull(step, value);
}

/// w - rate * g
TAUT_HD inline float apply_sgd(const UpdateStep& step, float value, float gradient) {
  return value - step.rate * decayed(step, value, gradient);
}

/// v = momentum * v + rate * g; w - v. LARS is the same on a gradient that update_scale() scaled.
/// Source    Polyak, 1964; in the form of Caffe's SGD solver. LARS: You et al., "Large Batch
///           Training of Convolutional Networks", 2017, algorithm 1
TAUT_HD inline float apply_momentum(const UpdateStep& step, float value, float gradient,
                                    float& velocity) {
  velocity = step.momentum * velocity + step.rate * decayed(step, value, gradient);
  return value - velocity;
}

/// v' = momentum * v + rate * g; w - ((1 + ahead) * v' - ahead * v): w is kept `ahead` velocities
/// ahead of where v alone has brought it; with `ahead` = momentum this is Nesterov's, with 0 Polyak's.
/// Source    Sutskever et al., "On the importance of initialization and momentum in deep learning",
///           ICML 2013; in the form of Caffe's Nesterov solver
TAUT_HD inline float apply_nesterov(const UpdateStep& step, float value, float gradient,
                                    float& velocity) {
  const float before = velocity;
  velocity = step.momentum * before + step.rate * decayed(step, value, gradient);
  return value - ((1 + step.ahead) * velocity - step.ahead * before);
}

/// h = h + g^2; w - rate * g / (sqrt(h) + delta)
/// Source    Duchi et al., "Adaptive Subgradient Methods for Online Learning and Stochastic
///           Optimization", JMLR 2011, section 1.1 (the diagonal form); as in Caffe's AdaGrad solver
TAUT_HD inline float apply_adagrad(const UpdateStep& step, float value, float gradient,
                                   float& squares) {
  const float g = decayed(step, value, gradient);
  squares = squares + g * g;
  return value - step.rate * g / (std::sqrt(squares) + step.delta);
}

/// h = rms_decay * h + (1 - rms_decay) * g^2; w - rate * g / (sqrt(h) + delta)
/// Source    Tieleman and Hinton, "Neural Networks for Machine Learning", lecture 6.5, 2012; as in
///           Caffe's RMSProp solver
TAUT_HD inline float apply_rmsprop(const UpdateStep& step, float value, float gradient,
                                   float& squares) {
  const float g = decayed(step, value, gradient);
  squares = step.rms_decay * squares + (1 - step.rms_decay) * g * g;
  return value - step.rate * g / (std::sqrt(squares) + step.delta);
}

/// h = momentum * h + (1 - momentum) * g^2; d = g * sqrt((u + delta) / (h + delta));
/// u = momentum * u + (1 - momentum) * d^2; w - rate * d
/// Source    Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012, algorithm 1; with the rate
///           of Caffe's AdaDelta solver, whose momentum is the paper's rho
TAUT_HD inline float apply_adadelta(const UpdateStep& step, float value, float gradient,
                                    float& squares, float& updates) {
  const float g = decayed(step, value, gradient);
  squares = step.momentum * squares + (1 - step.momentum) * g * g;
  const float moved = g * std::sqrt((updates + step.delta) / (squares + step.delta));
  updates = step.momentum * updates + (1 - step.momentum) * moved * moved;
  return value - step.rate * moved;
}

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2
TAUT_HD inline void gather_moments(const UpdateStep& step, float g, float& first, float& second) {
  first = step.momentum * first + (1 - step.momentum) * g;
  second = step.momentum2 * second + (1 - step.momentum2) * g * g;
}

/// w - rate * correction * m / (sqrt(v) + delta)
/// Source    Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, section 2,
///           in the reordered form at its end
TAUT_HD inline float apply_adam(const UpdateStep& step, float value, float gradient, float& first,
                                float& second) {
  gather_moments(step, decayed(step, value, gradient), first, second);
  return value - step.rate * step.correction * first / (std::sqrt(second) + step.delta);
}

/// m^ / (sqrt(v^) + delta) + decay: both moments without their bias, and decay beside them. What
/// AdamW steps along, and what LAMB takes the norm of.
TAUT_HD inline float decoupled_direction(const UpdateStep& step, float value, float first,
                                         float second) {
  return first * step.correction / (std::sqrt(second) * step.correction2 + step.delta) +
         decay_pull(step, value);
}

/// w - rate * (m^ / (sqrt(v^) + delta) + decay * w), moments of the gradient without decay
/// Source    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2
TAUT_HD inline float apply_adamw(const UpdateStep& step, float value, float gradient, float& first,
                                 float& second) {
  gather_moments(step, gradient, first, second);
  return value - step.rate * decoupled_direction(step, value, first, second);
}

/// w - rate * trust * (m^ / (sqrt(v^) + delta) + decay * w), once gather_moments() has been over the
/// block; trust is trust_ratio() of the block.
/// Source    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
///           ICLR 2020, algorithm 2, with the identity for its phi
TAUT_HD inline float apply_lamb(const UpdateStep& step, float trust, float value, float direction) {
  return value - step.rate * trust * direction;
}
TAUT_HD inline float apply_lamb(const UpdateStep& step, float trust, float value, float first,
                                float second) {
  return apply_lamb(step, trust, value, decoupled_direction(step, value, first, second));
}

/// LAMB's |w| / |direction|, or 1 where either has no length (a bias that begins at 0).
TAUT_HD inline float trust_ratio(double squares_of_values, double squares_of_direction) {
  if (!(squares_of_values > 0 && squares_of_direction > 0)) return 1;
  return static_cast<float>(std::sqrt(squares_of_values / squares_of_direction));
}

}  // namespace taut::math
