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

TEST_CASE("any part of a table's first values can be computed separately", "[filler]") {
  Filler sparse{Filler::Kind::kGaussian, 0.25F, 2.0F};
  sparse.sparse = 3;
  sparse.outputs = 10;
  for (const Filler& filler :
       {Filler{Filler::Kind::kConstant, 0.25F, 0}, Filler{Filler::Kind::kUniform, 0.25F, 2.0F},
        Filler{Filler::Kind::kGaussian, 0.25F, 2.0F}, sparse, bilinear(5)}) {
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

TEST_CASE("a sparse gaussian keeps its share of values and draws the kept ones as usual",
          "[filler]") {
  const Filler dense{Filler::Kind::kGaussian, 0, 1};
  Filler sparse = dense;
  sparse.sparse = 15;
  sparse.outputs = 100;
  const auto all = values(dense, "w", 200000);
  const auto some = values(sparse, "w", 200000);
  std::size_t kept = 0;
  double squares = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (some[i] == 0) continue;
    REQUIRE(some[i] == all[i]);
    ++kept;
    squares += static_cast<double>(some[i]) * some[i];
  }
  CHECK(static_cast<double>(kept) / 200000 == Approx(0.15).epsilon(0.02));
  // What is kept does not depend on the value: the kept ones have the variance of all.
  CHECK(squares / static_cast<double>(kept) == Approx(1).epsilon(0.03));
}

TEST_CASE("a sparse gaussian may keep none and all", "[filler]") {
  const Filler dense{Filler::Kind::kGaussian, 0, 1};
  Filler sparse = dense;
  sparse.outputs = 10;
  sparse.sparse = 0;
  CHECK(values(sparse, "w", 1000) == std::vector<float>(1000, 0.0F));
  sparse.sparse = 10;
  CHECK(values(sparse, "w", 1000) == values(dense, "w", 1000));
}

TEST_CASE("bilinear kernels are Caffe's, even and odd, all equal", "[filler]") {
  // Caffe's formula by hand: f = ceil(k / 2), c = (k - 1) / (2 f), 1 - |x / f - c| in each
  // direction.
  const auto check = [](std::int64_t extent, const std::vector<float>& tent) {
    const std::size_t k = tent.size();
    const auto drawn = values(bilinear(extent), "up", 2 * k * k);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      CHECK(drawn[i] == Approx(tent[i % k] * tent[i / k % k]));
    }
  };
  check(4, {0.25F, 0.75F, 0.75F, 0.25F});
  check(3, {0.5F, 1, 0.5F});
  check(2, {0.5F, 0.5F});
  check(1, {1});
}
