// The rules compared with PyTorch's optimizers (FTRL with its paper's algorithm, on PyTorch's
// tensors), and those that PyTorch does not have next to a few lines of their papers' arithmetic in
// double.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/math/golden_rules.hpp"

using namespace taut;
using namespace taut::math;

namespace {

using Doubles = std::vector<double>;

UpdateRule rule_of(const std::string& text) {
  pb::SolverParameter solver;
  REQUIRE(parse_text(text + " max_iter: 100", "solver", solver).has_value());
  const auto rule = to_update_rule(solver);
  REQUIRE(rule.has_value());
  return rule.value();
}

/// A slice that is a whole table, as one worker's run would change it.
class Slice {
 public:
  Slice(UpdateRule rule, std::vector<float> values)
      : values_(std::move(values)),
        rule_(std::move(rule)),
        state_(static_cast<std::size_t>(rule_.state_count()),
               std::vector<float>(values_.size(), 0.0F)) {}

  void step(std::span<const float> gradient) {
    const float norm =
        rule_.update_norm() == UpdateNorm::kRelative ? relative_norm(gradient, values_) : 0.0F;
    const std::array<float, 1> scales = {update_scale(rule_, norm, 1)};
    const GradientView view{std::as_bytes(gradient).data(), scales[0]};
    std::vector<float*> state;
    for (auto& one : state_) state.push_back(one.data());
    const UpdateStep step = make_step(rule_, clock_, 1, 1, decay_share(rule_, scales, 1), clock_);
    apply_update(rule_.kind, step, std::span(&view, 1), 1, values_, values_, state);
    ++clock_;
  }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  UpdateRule rule_;
  std::vector<std::vector<float>> state_;
  std::int64_t clock_ = 0;
};

std::span<const float> gradient_at(int step) {
  const std::size_t count = test::kGoldenValues.size();
  return std::span(test::kGoldenGradients).subspan(static_cast<std::size_t>(step) * count, count);
}

double norm_of(const Doubles& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

/// One step of a rule on a whole table, written as in its paper.
using Reference = std::function<void(int t, const Doubles& g, Doubles& w)>;

void check_against(const std::string& solver, const Reference& reference) {
  CAPTURE(solver);
  Slice slice(rule_of(solver), test::kGoldenValues);
  Doubles w(test::kGoldenValues.begin(), test::kGoldenValues.end());
  for (int t = 0; t < test::kGoldenSteps; ++t) {
    CAPTURE(t);
    slice.step(gradient_at(t));
    reference(t, Doubles(gradient_at(t).begin(), gradient_at(t).end()), w);
    for (std::size_t i = 0; i < w.size(); ++i) {
      CHECK(slice.values()[i] == Approx(w[i]).epsilon(2e-6).margin(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("rules move values as PyTorch's optimizers and FTRL's paper do", "[update-rule]") {
  for (const test::GoldenRule& golden : test::kGoldenRules) {
    CAPTURE(golden.solver);
    Slice slice(rule_of(golden.solver), test::kGoldenValues);
    for (int t = 0; t < test::kGoldenSteps; ++t) {
      CAPTURE(t);
      slice.step(gradient_at(t));
      for (std::size_t i = 0; i < slice.values().size(); ++i) {
        const float expected =
            golden.after[static_cast<std::size_t>(t) * slice.values().size() + i];
        CHECK(slice.values()[i] == Approx(expected).epsilon(2e-6).margin(1e-6));
      }
    }
  }
}

TEST_CASE("AdaGrad divides by the root of all squares", "[update-rule]") {
  Doubles h(test::kGoldenValues.size());
  check_against("type: 'AdaGrad' base_lr: 0.2 delta: 1e-4", [&](int, const Doubles& g, Doubles& w) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      h[i] += g[i] * g[i];
      w[i] -= 0.2 * g[i] / (std::sqrt(h[i]) + 1e-4);
    }
  });
}

TEST_CASE("RMSProp divides by the root of a fading mean of squares", "[update-rule]") {
  Doubles h(test::kGoldenValues.size());
  check_against("type: 'RMSProp' base_lr: 0.05 rms_decay: 0.98",
                [&](int, const Doubles& g, Doubles& w) {
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    h[i] = 0.98 * h[i] + 0.02 * g[i] * g[i];
                    w[i] -= 0.05 * g[i] / (std::sqrt(h[i]) + 1e-8);
                  }
                });
}

TEST_CASE("AdaDelta steps by the ratio of both fading roots", "[update-rule]") {
  Doubles h(test::kGoldenValues.size());
  Doubles u(test::kGoldenValues.size());
  check_against("type: 'AdaDelta' base_lr: 1 momentum: 0.95 delta: 1e-6",
                [&](int, const Doubles& g, Doubles& w) {
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    h[i] = 0.95 * h[i] + 0.05 * g[i] * g[i];
                    const double moved = g[i] * std::sqrt(u[i] + 1e-6) / std::sqrt(h[i] + 1e-6);
                    u[i] = 0.95 * u[i] + 0.05 * moved * moved;
                    w[i] -= moved;
                  }
                });
}

TEST_CASE("AdamW decays values separately from the moments", "[update-rule]") {
  Doubles m(test::kGoldenValues.size());
  Doubles v(test::kGoldenValues.size());
  check_against("type: 'AdamW' base_lr: 0.05 momentum: 0.8 momentum2: 0.9 weight_decay: 0.3",
                [&](int t, const Doubles& g, Doubles& w) {
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    m[i] = 0.8 * m[i] + 0.2 * g[i];
                    v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
                    const double m_hat = m[i] / (1 - std::pow(0.8, t + 1));
                    const double v_hat = v[i] / (1 - std::pow(0.9, t + 1));
                    w[i] -= 0.05 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.3 * w[i]);
                  }
                });
}

TEST_CASE("LARS scales a table's gradient by its norms before momentum", "[update-rule]") {
  Doubles v(test::kGoldenValues.size());
  check_against("type: 'LARS' base_lr: 2 momentum: 0.9 weight_decay: 0.01 trust_coefficient: 0.02",
                [&](int, const Doubles& g, Doubles& w) {
                  const double local = 0.02 * norm_of(w) / (norm_of(g) + 0.01 * norm_of(w));
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    v[i] = 0.9 * v[i] + 2 * local * (g[i] + 0.01 * w[i]);
                  }
                  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= v[i];
                });
}

TEST_CASE("LAMB gives its step the length of the values", "[update-rule]") {
  Doubles m(test::kGoldenValues.size());
  Doubles v(test::kGoldenValues.size());
  check_against("type: 'LAMB' base_lr: 0.1 momentum: 0.8 momentum2: 0.9 weight_decay: 0.3",
                [&](int t, const Doubles& g, Doubles& w) {
                  Doubles direction(w.size());
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    m[i] = 0.8 * m[i] + 0.2 * g[i];
                    v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
                    const double m_hat = m[i] / (1 - std::pow(0.8, t + 1));
                    const double v_hat = v[i] / (1 - std::pow(0.9, t + 1));
                    direction[i] = m_hat / (std::sqrt(v_hat) + 1e-8) + 0.3 * w[i];
                  }
                  const double trust = norm_of(w) / norm_of(direction);
                  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * trust * direction[i];
                });
}

TEST_CASE("Lion steps by the sign of a mean that remembers longer than it steps", "[update-rule]") {
  Doubles m(test::kGoldenValues.size());
  check_against("type: 'Lion' base_lr: 0.05 momentum: 0.8 momentum2: 0.9 weight_decay: 0.3",
                [&](int, const Doubles& g, Doubles& w) {
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    const double along = 0.8 * m[i] + 0.2 * g[i];
                    m[i] = 0.9 * m[i] + 0.1 * g[i];
                    w[i] -= 0.05 * ((along > 0) - (along < 0) + 0.3 * w[i]);
                  }
                });
}

TEST_CASE("RAdam follows its momentum alone until the variance of its rate is known",
          "[update-rule]") {
  Doubles m(test::kGoldenValues.size());
  Doubles v(test::kGoldenValues.size());
  int rectified = 0;
  check_against("type: 'RAdam' base_lr: 0.05 momentum: 0.8 momentum2: 0.9 weight_decay: 0.3",
                [&](int t, const Doubles& g, Doubles& w) {
                  const double longest = 2 / (1 - 0.9) - 1;
                  const double power = std::pow(0.9, t + 1);
                  const double rho = longest - 2 * (t + 1) * power / (1 - power);
                  if (rho > 5) ++rectified;
                  for (std::size_t i = 0; i < w.size(); ++i) {
                    const double decayed = g[i] + 0.3 * w[i];
                    m[i] = 0.8 * m[i] + 0.2 * decayed;
                    v[i] = 0.9 * v[i] + 0.1 * decayed * decayed;
                    const double m_hat = m[i] / (1 - std::pow(0.8, t + 1));
                    const double adaptive = std::sqrt(1 - power) / (std::sqrt(v[i]) + 1e-8);
                    const double r = std::sqrt((rho - 4) * (rho - 2) * longest /
                                               ((longest - 4) * (longest - 2) * rho));
                    w[i] -= 0.05 * m_hat * (rho > 5 ? r * adaptive : 1);
                  }
                });
  CHECK(rectified > 0);
  CHECK(rectified < test::kGoldenSteps);
}

TEST_CASE("FTRL leaves a value as it began where no gradient has come", "[update-rule]") {
  math::UpdateStep step;
  step.rate = 0.5F;
  float pull = 0;
  float squares = 0;
  // Also where beta and l2 are 0, so that nothing pulls.
  CHECK(math::Rule<math::RuleKind::kFtrl>{}(step, 0.25F, 0, pull, squares) == 0.25F);
}

TEST_CASE("FTRL keeps a value at 0 while its gradients stay within l1", "[update-rule]") {
  Slice slice(rule_of("type: 'FTRL' base_lr: 0.5 ftrl_l1: 1"), {0, 0, 0.25F});
  const std::vector<float> gradient = {0.4F, -0.6F, 0};
  slice.step(gradient);
  CHECK(slice.values()[0] == 0);
  CHECK(slice.values()[1] == 0);
  CHECK(slice.values()[2] == Approx(0.25));  // no gradient yet: the initial value
  slice.step(gradient);
  CHECK(slice.values()[0] == 0);  // 0.8 in all
  CHECK(slice.values()[1] > 0);   // 1.2 in all
}

TEST_CASE("a table that is zero is moved by LARS and LAMB without their ratios", "[update-rule]") {
  const std::vector<float> zeros(test::kGoldenValues.size(), 0.0F);
  Slice lars(rule_of("type: 'LARS' base_lr: 0.1 momentum: 0.9"), zeros);
  Slice lamb(rule_of("type: 'LAMB' base_lr: 0.1 momentum: 0.9"), zeros);
  lars.step(gradient_at(0));
  lamb.step(gradient_at(0));
  for (std::size_t i = 0; i < zeros.size(); ++i) {
    const float g = gradient_at(0)[i];
    CHECK(lars.values()[i] == Approx(-0.1 * g));
    CHECK(lamb.values()[i] == Approx(g > 0 ? -0.1 : 0.1).epsilon(1e-4));
  }
}

TEST_CASE("LARS over two workers steps by the mean of their separate steps", "[update-rule]") {
  UpdateRule rule =
      rule_of("type: 'LARS' base_lr: 1 momentum: 0 weight_decay: 0.01 trust_coefficient: 0.02");
  const std::vector<float>& w = test::kGoldenValues;
  Slice first(rule, w);
  Slice second(rule, w);
  first.step(gradient_at(0));
  second.step(gradient_at(1));

  std::array<float, 2> scales{};
  std::array<GradientView, 2> views;
  for (int k = 0; k < 2; ++k) {
    const auto i = static_cast<std::size_t>(k);
    scales[i] = update_scale(rule, relative_norm(gradient_at(k), w), 1);
    views[i] = {std::as_bytes(gradient_at(k)).data(), scales[i]};
  }
  std::vector<float> both(w);
  std::vector<float> velocity(w.size(), 0.0F);
  const std::array<float*, 1> state = {velocity.data()};
  const UpdateStep step = make_step(rule, 0, 1, 1, decay_share(rule, scales, 2), 0);
  apply_update(rule.kind, step, views, 0.5F, w, both, state);
  for (std::size_t i = 0; i < w.size(); ++i) {
    CHECK(both[i] == Approx((first.values()[i] + second.values()[i]) / 2).epsilon(1e-5));
  }
}

TEST_CASE("each rule has the same bits at every alignment of a slice's memory", "[update-rule]") {
  // 1.5 blocks and an odd rest, so that every loop has a tail.
  const std::size_t count = 3089;
  std::vector<float> values(count);
  std::vector<float> gradient(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 0.02F * static_cast<float>(i % 53) - 0.5F;
    gradient[i] = 0.01F * static_cast<float>(i % 97) - 0.3F;
  }
  for (const RuleInfo& info : rule_types()) {
    const std::string type(info.name);
    CAPTURE(type);
    const UpdateRule rule = rule_of((info.reads.ftrl ? "ftrl_l1: 0.2 " : "weight_decay: 0.01 ") +
                                    ("base_lr: 0.1 type: '" + type + "'"));
    Slice aligned(rule, values);
    aligned.step(gradient);
    // One float further, every vector load straddles.
    std::vector<float> moved(count + 1);
    std::copy(gradient.begin(), gradient.end(), moved.begin() + 1);
    Slice shifted(rule, values);
    shifted.step(std::span(moved).subspan(1));
    CHECK(aligned.values() == shifted.values());
  }
}
