#include "common/math/filler.hpp"

#include <cmath>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut::math;

namespace {

std::vector<float> values(const Filler& filler, const std::string& name, std::size_t count,
                          std::uint64_t seed = 7) {
  std::vector<float> out(count);
  fill(filler, seed, name, 0, out);
  return out;
}

}  // namespace

TEST_CASE("any part of a table's first values can be made alone", "[filler]") {
  for (const auto kind :
       {Filler::Kind::kConstant, Filler::Kind::kUniform, Filler::Kind::kGaussian}) {
    const Filler filler{kind, 0.25F, 2.0F};
    const auto whole = values(filler, "ip1/weight", 1000);
    std::vector<float> part(311);
    fill(filler, 7, "ip1/weight", 123, part);
    for (std::size_t i = 0; i < part.size(); ++i) REQUIRE(part[i] == whole[123 + i]);
  }
}

TEST_CASE("first values depend on the seed and on the table's name", "[filler]") {
  const Filler uniform{Filler::Kind::kUniform, -1, 1};
  CHECK(values(uniform, "a", 16) != values(uniform, "b", 16));
  CHECK(values(uniform, "a", 16, 1) != values(uniform, "a", 16, 2));
}

TEST_CASE("xavier spreads uniformly within the square root of three over the fan", "[filler]") {
  const Filler filler = xavier({.in = 75, .out = 500}, FanMode::kIn);
  CHECK(filler.kind == Filler::Kind::kUniform);
  CHECK(filler.b == Approx(std::sqrt(3.0 / 75)));
  CHECK(filler.a == -filler.b);
  CHECK(xavier({.in = 10, .out = 30}, FanMode::kOut).b == Approx(std::sqrt(3.0 / 30)));
  CHECK(xavier({.in = 10, .out = 30}, FanMode::kAverage).b == Approx(std::sqrt(3.0 / 20)));
  double sum = 0;
  for (const float value : values(filler, "w", 100000)) {
    REQUIRE(std::abs(value) <= filler.b);
    sum += value;
  }
  CHECK(std::abs(sum / 100000) < 0.002);
}

TEST_CASE("msra's values have the variance two over the fan", "[filler]") {
  const Filler filler = msra({.in = 50, .out = 1}, FanMode::kIn);
  double sum = 0;
  double squares = 0;
  const auto drawn = values(filler, "w", 200000);
  for (const float value : drawn) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  CHECK(std::abs(sum / 200000) < 0.003);
  CHECK(squares / 200000 == Approx(2.0 / 50).epsilon(0.02));
}
