#include "common/math/update_rule.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "tests/support/catch.hpp"

using namespace taut::math;

namespace {

GradientView view(const std::vector<float>& gradient, float scale = 1) {
  return {reinterpret_cast<const std::byte*>(gradient.data()), scale};
}

UpdateRule rule_of(RuleKind kind) {
  UpdateRule rule;
  rule.kind = kind;
  rule.rate.base = 0.1;
  rule.momentum = 0.9F;
  return rule;
}

/// Applies `gradients` in one application and returns the values after it.
std::vector<float> apply(const UpdateRule& rule, const UpdateStep& step,
                         const std::vector<std::vector<float>>& gradients, float scale,
                         std::vector<float> values, std::vector<std::vector<float>>& state) {
  std::vector<GradientView> views;
  views.reserve(gradients.size());
  for (const auto& gradient : gradients) views.push_back(view(gradient));
  std::vector<float*> pointers;
  pointers.reserve(state.size());
  for (auto& one : state) pointers.push_back(one.data());
  apply_update(rule.kind, step, views, scale, values, values, pointers);
  return values;
}

}  // namespace

TEST_CASE("SGD descends by rate times the mean gradient plus decay", "[update-rule]") {
  UpdateRule rule = rule_of(RuleKind::kSgd);
  rule.weight_decay = 0.01F;
  std::vector<std::vector<float>> state;
  const UpdateStep step = make_step(rule, 0, 2.0F, 3.0F, 1.0, 0);
  const auto after = apply(rule, step, {{1, 2}, {3, 4}}, 0.5F, {10, -10}, state);
  CHECK(after[0] == Approx(10 - 0.2 * (2 + 0.03 * 10)));
  CHECK(after[1] == Approx(-10 - 0.2 * (3 - 0.03 * 10)));
}

TEST_CASE("L1 regularization pulls by the sign", "[update-rule]") {
  UpdateRule rule = rule_of(RuleKind::kSgd);
  rule.weight_decay = 0.5F;
  rule.regularization = Regularization::kL1;
  std::vector<std::vector<float>> state;
  const UpdateStep step = make_step(rule, 0, 1, 1, 1.0, 0);
  const auto after = apply(rule, step, {{0, 0, 0}}, 1, {2, -2, 0}, state);
  CHECK(after[0] == Approx(1.95));
  CHECK(after[1] == Approx(-1.95));
  CHECK(after[2] == 0);
}

TEST_CASE("momentum under a constant gradient moves as far per clock on arrival as in aggregate",
          "[update-rule]") {
  const UpdateRule rule = rule_of(RuleKind::kMomentum);
  const int members = 4;
  std::vector<std::vector<float>> aggregate_state = {{0}};
  std::vector<std::vector<float>> arrival_state = {{0}};
  std::vector<float> aggregate = {0};
  std::vector<float> arrival = {0};
  float aggregate_move = 0;
  float arrival_move = 0;
  for (int clock = 0; clock < 200; ++clock) {
    const float before = aggregate[0];
    aggregate = apply(rule, make_step(rule, clock, 1, 1, 1.0, clock), {{1}, {1}, {1}, {1}},
                      1.0F / members, aggregate, aggregate_state);
    aggregate_move = aggregate[0] - before;
    const float arrival_before = arrival[0];
    for (int m = 0; m < members; ++m) {
      arrival = apply(rule, make_step(rule, clock, 1, 1, 1.0 / members, clock), {{1}},
                      1.0F / members, arrival, arrival_state);
    }
    arrival_move = arrival[0] - arrival_before;
  }
  CHECK(aggregate_move == Approx(-1.0).epsilon(1e-3));
  CHECK(arrival_move == Approx(aggregate_move).epsilon(1e-3));
}

namespace {

/// Momentum that looks ahead, as a job settles it.
UpdateRule looking_ahead() {
  UpdateRule rule = rule_of(RuleKind::kNesterov);
  rule.steps_ahead = 0;
  rule.looks_ahead = true;
  return rule;
}

/// How far from its minimum 50 w^2 is left by `members` that take turns, each computing from what
/// it read when it pushed last.
float left_of_quadratic(UpdateRule rule, int members, double rate) {
  rule.rate.base = rate;
  std::vector<std::vector<float>> velocity = {{0}};
  std::vector<float> value = {1};
  std::vector<float> read(static_cast<std::size_t>(members), 1.0F);
  for (int arrival = 0; arrival < 400; ++arrival) {
    float& base = read[static_cast<std::size_t>(arrival % members)];
    value = apply(rule, make_step(rule, arrival, 1, 1, 1.0 / members, arrival), {{100 * base}},
                  1.0F / static_cast<float>(members), value, velocity);
    base = value[0];
  }
  return std::abs(value[0]);
}

}  // namespace

TEST_CASE(
    "momentum that looks ahead is where heavy-ball momentum will be when the other updates have "
    "arrived",
    "[update-rule]") {
  const UpdateRule plain = rule_of(RuleKind::kMomentum);
  const UpdateRule ahead = looking_ahead();
  std::vector<std::vector<float>> plain_state = {{0}};
  std::vector<std::vector<float>> ahead_state = {{0}};
  std::vector<float> there = {2};
  std::vector<float> value = {2};
  for (int arrival = 0; arrival < 12; ++arrival) {
    const std::vector<float> gradient = {static_cast<float>(arrival % 5) - 1.5F};
    const double share = 1.0 / 3;  // of three workers
    there = apply(plain, make_step(plain, 0, 1, 1, share, 0), {gradient}, 1, there, plain_state);
    value = apply(ahead, make_step(ahead, 0, 1, 1, share, 0), {gradient}, 1, value, ahead_state);
    CHECK(ahead_state[0][0] == plain_state[0][0]);
    CHECK(value[0] == Approx(there[0] - (0.9 + 0.81) * plain_state[0][0]).epsilon(1e-5));
  }
}

TEST_CASE("late gradients make heavy-ball momentum diverge, and momentum that looks ahead converge",
          "[update-rule]") {
  CHECK(left_of_quadratic(rule_of(RuleKind::kMomentum), 1, 0.004) < 1e-3F);
  CHECK(left_of_quadratic(rule_of(RuleKind::kMomentum), 2, 0.004) > 1e3F);
  CHECK(left_of_quadratic(looking_ahead(), 2, 0.004) < 1e-3F);
  CHECK(left_of_quadratic(rule_of(RuleKind::kMomentum), 4, 0.002) > 1e2F);
  CHECK(left_of_quadratic(looking_ahead(), 4, 0.002) < 1e-3F);
}

TEST_CASE("without late updates, looking ahead changes no bit", "[update-rule]") {
  const UpdateRule plain = rule_of(RuleKind::kMomentum);
  const UpdateRule ahead = looking_ahead();
  std::vector<std::vector<float>> plain_state = {{0}};
  std::vector<std::vector<float>> ahead_state = {{0}};
  std::vector<float> there = {2};
  std::vector<float> value = {2};
  for (int clock = 0; clock < 12; ++clock) {
    const std::vector<float> gradient = {0.1F * static_cast<float>(clock) - 0.37F};
    const auto step = make_step(plain, clock, 1, 1, 1.0, clock);
    there = apply(plain, step, {gradient}, 0.5F, there, plain_state);
    const auto other = make_step(ahead, clock, 1, 1, 1.0, clock);
    value = apply(ahead, other, {gradient}, 0.5F, value, ahead_state);
    CHECK(value == there);
  }
}

TEST_CASE("a rate for a reference batch grows with the members, the start of warm-up does not",
          "[update-rule]") {
  UpdateRule rule = rule_of(RuleKind::kSgd);
  rule.rate_per_member = 0.5;
  CHECK(make_step(rule, 7, 1, 1, 1.0, 0, 8).rate == Approx(0.4));
  CHECK(make_step(rule, 7, 1, 1, 1.0, 0, 1).rate == Approx(0.05));
  rule.rate.warmup = 10;
  rule.rate.warmup_base = 0.1;
  CHECK(make_step(rule, 0, 1, 1, 1.0, 0, 8).rate == Approx(0.1));
  CHECK(make_step(rule, 5, 1, 1, 1.0, 0, 8).rate == Approx(0.25));
  CHECK(make_step(rule, 10, 1, 1, 1.0, 0, 8).rate == Approx(0.4));
}

TEST_CASE("weight decay acts once per clock however updates are applied", "[update-rule]") {
  UpdateRule rule = rule_of(RuleKind::kSgd);
  rule.weight_decay = 0.01F;
  std::vector<std::vector<float>> state;
  auto aggregate = apply(rule, make_step(rule, 0, 1, 1, 1.0, 0), {{0}, {0}}, 0.5F, {1}, state);
  std::vector<float> arrival = {1};
  for (int m = 0; m < 2; ++m) {
    arrival = apply(rule, make_step(rule, 0, 1, 1, 0.5, m), {{0}}, 0.5F, arrival, state);
  }
  CHECK(aggregate[0] == Approx(0.999));
  CHECK(arrival[0] == Approx(0.999).epsilon(1e-6));
}

TEST_CASE("Nesterov and Adam follow their formulas for three steps", "[update-rule]") {
  const std::array<float, 3> gradients = {0.5F, -1.0F, 2.0F};
  UpdateRule nesterov = rule_of(RuleKind::kNesterov);
  std::vector<std::vector<float>> velocity = {{0}};
  std::vector<float> value = {1};
  double w = 1;
  double v = 0;
  for (int t = 0; t < 3; ++t) {
    const auto i = static_cast<std::size_t>(t);
    value =
        apply(nesterov, make_step(nesterov, t, 1, 1, 1.0, t), {{gradients[i]}}, 1, value, velocity);
    const double next = 0.9 * v + 0.1 * gradients[i];
    w -= 1.9 * next - 0.9 * v;
    v = next;
    CHECK(value[0] == Approx(w).epsilon(1e-5));
  }

  UpdateRule adam = rule_of(RuleKind::kAdam);
  std::vector<std::vector<float>> moments = {{0}, {0}};
  value = {1};
  w = 1;
  double m = 0;
  double s = 0;
  for (int t = 0; t < 3; ++t) {
    const auto i = static_cast<std::size_t>(t);
    value = apply(adam, make_step(adam, t, 1, 1, 1.0, t), {{gradients[i]}}, 1, value, moments);
    m = 0.9 * m + 0.1 * gradients[i];
    s = 0.999 * s + 0.001 * gradients[i] * gradients[i];
    const double m_hat = m / (1 - std::pow(0.9, t + 1));
    const double s_hat = s / (1 - std::pow(0.999, t + 1));
    w -= 0.1 * m_hat / (std::sqrt(s_hat) + 1e-8);
    CHECK(value[0] == Approx(w).epsilon(1e-4));
  }
}

TEST_CASE("an update's bits do not depend on how a table is cut or aligned", "[update-rule]") {
  const UpdateRule rule = rule_of(RuleKind::kMomentum);
  const std::size_t count = 5003;
  std::vector<float> gradient(count);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    gradient[i] = 0.01F * static_cast<float>(i % 97) - 0.3F;
    values[i] = 0.02F * static_cast<float>(i % 53) - 0.5F;
  }
  const UpdateStep step = make_step(rule, 3, 1, 1, 1.0, 3);
  std::vector<std::vector<float>> state = {std::vector<float>(count, 0.125F)};
  const auto whole = apply(rule, step, {gradient, gradient}, 0.5F, values, state);

  // The update again, in three pieces, from memory that no float is aligned to.
  std::vector<std::byte> shifted(count * sizeof(float) + 1);
  std::memcpy(shifted.data() + 1, gradient.data(), count * sizeof(float));
  std::vector<float> pieces(values);
  std::vector<float> velocity(count, 0.125F);
  const std::array<std::size_t, 4> cuts = {0, 1777, 1778, count};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::size_t begin = cuts[i];
    const std::size_t size = cuts[i + 1] - begin;
    const GradientView part{shifted.data() + 1 + begin * sizeof(float), 1};
    const std::array<GradientView, 2> parts = {part, part};
    const std::array<float*, 1> slots = {velocity.data() + begin};
    apply_update(rule.kind, step, parts, 0.5F, std::span(values).subspan(begin, size),
                 std::span(pieces).subspan(begin, size), slots);
  }
  // NOLINTBEGIN(bugprone-suspicious-memory-comparison): bit for bit
  CHECK(std::memcmp(whole.data(), pieces.data(), count * sizeof(float)) == 0);
  CHECK(std::memcmp(state[0].data(), velocity.data(), count * sizeof(float)) == 0);
  // NOLINTEND(bugprone-suspicious-memory-comparison)
}

TEST_CASE("running statistics become the mean of all, or move towards each arrival",
          "[update-rule]") {
  const std::vector<float> a = {4};
  const std::vector<float> b = {8};
  std::vector<float> out = {0};
  const std::array<GradientView, 2> both = {view(a), view(b)};
  apply_average(both, 1.0F, std::vector<float>{100}, out);
  CHECK(out[0] == Approx(6));
  const std::array<GradientView, 1> one = {view(a)};
  apply_average(one, 0.5F, std::vector<float>{8}, out);
  CHECK(out[0] == Approx(6));
}

TEST_CASE("infinite values, as of an attention mask, stay in an average", "[update-rule]") {
  for (const float infinite : {-INFINITY, INFINITY}) {
    const std::vector<float> mask = {infinite, 2};
    std::vector<float> out(2);
    const std::array<GradientView, 2> both = {view(mask), view(mask)};
    for (const float share : {1.0F, 0.5F}) {
      apply_average(both, share, mask, out);
      CHECK(out == mask);
    }
  }
  // One that becomes infinite is not hidden.
  const std::vector<float> wrong = {INFINITY};
  std::vector<float> out(1);
  apply_average(std::array<GradientView, 1>{view(wrong)}, 0.5F, std::vector<float>{1}, out);
  CHECK(out[0] == INFINITY);
}
