#include "common/math/learning_rate.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

using taut::math::LearningRate;
using Policy = LearningRate::Policy;

TEST_CASE("each learning-rate policy follows its formula", "[learning-rate]") {
  LearningRate rate;
  rate.base = 0.5;
  rate.gamma = 0.1;
  rate.power = 0.75;
  rate.step = 10;
  rate.steps = {5, 12};
  rate.horizon = 100;

  rate.policy = Policy::kFixed;
  CHECK(rate.at(1000) == 0.5);
  rate.policy = Policy::kStep;
  CHECK(rate.at(9) == 0.5);
  CHECK(rate.at(10) == Approx(0.05));
  CHECK(rate.at(25) == Approx(0.005));
  rate.policy = Policy::kMultistep;
  CHECK(rate.at(4) == 0.5);
  CHECK(rate.at(5) == Approx(0.05));
  CHECK(rate.at(12) == Approx(0.005));
  rate.policy = Policy::kExp;
  CHECK(rate.at(3) == Approx(0.0005));
  rate.policy = Policy::kInv;
  CHECK(rate.at(50) == Approx(0.5 * std::pow(6.0, -0.75)));
  rate.policy = Policy::kPoly;
  CHECK(rate.at(36) == Approx(0.5 * std::pow(0.64, 0.75)));
  CHECK(rate.at(200) == 0.0);
  rate.policy = Policy::kSigmoid;
  CHECK(rate.at(10) == Approx(0.25));
  rate.policy = Policy::kCosine;
  CHECK(rate.at(0) == Approx(0.5));
  CHECK(rate.at(50) == Approx(0.25));
  CHECK(rate.at(100) == Approx(0.0).margin(1e-12));
}

TEST_CASE("warm-up rises linearly to the policy's value", "[learning-rate]") {
  LearningRate rate;
  rate.base = 1.0;
  rate.warmup = 10;
  rate.warmup_base = 0.2;
  CHECK(rate.at(0) == Approx(0.2));
  CHECK(rate.at(5) == Approx(0.6));
  CHECK(rate.at(10) == 1.0);
}
