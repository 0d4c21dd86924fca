#include "tests/twin/libraries/arithmetic.hpp"

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/device_values.hpp"

using namespace taut::twin;
using taut::twin::test::difference;
using taut::twin::test::some_values;
using taut::twin::test::Values;

TEST_CASE("factors are rounded as tensor cores take them", "[twin]") {
  // 1 + 2^-8 is half way between two bfloat16: to even. 1 + 3 * 2^-8 goes up.
  CHECK(round_to(Format::kBfloat16, 1.0F + 0x1p-8F) == 1.0F);
  CHECK(round_to(Format::kBfloat16, 1.0F + 3 * 0x1p-8F) == 1.0F + 0x1p-6F);
  CHECK(round_to(Format::kFloat16, 1.0F + 0x1p-11F) == 1.0F);
  CHECK(round_to(Format::kFloat16, 1.0F + 3 * 0x1p-11F) == 1.0F + 0x1p-9F);
  // TF32's tie goes away from zero.
  CHECK(round_to(Format::kTf32, 1.0F + 0x1p-11F) == 1.0F + 0x1p-10F);
  CHECK(round_to(Format::kTf32, -1.0F - 0x1p-11F) == -1.0F - 0x1p-10F);
  CHECK(round_to(Format::kTf32, 1.0F + 0x1p-12F) == 1.0F);
}

TEST_CASE("float16 overflows to infinity from 65520 on and has numbers down to 2^-24", "[twin]") {
  CHECK(round_to(Format::kFloat16, 65519.0F) == 65504.0F);
  CHECK(std::isinf(round_to(Format::kFloat16, 65520.0F)));
  CHECK(round_to(Format::kFloat16, -1e9F) == -std::numeric_limits<float>::infinity());
  CHECK(round_to(Format::kFloat16, 0x1p-24F) == 0x1p-24F);
  CHECK(round_to(Format::kFloat16, 0x1p-25F) == 0.0F);
  CHECK(round_to(Format::kFloat16, 1.01F * 0x1p-25F) == 0x1p-24F);
  CHECK(round_to(Format::kFloat16, 0x1p-14F - 0x1p-26F) == 0x1p-14F);
  CHECK(std::signbit(round_to(Format::kFloat16, -0.0F)));
}

TEST_CASE("a NaN stays one in every format", "[twin]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Format format : {Format::kTf32, Format::kBfloat16, Format::kFloat16}) {
    CHECK(std::isnan(round_to(format, nan)));
  }
}

TEST_CASE("each of the 65,536 patterns of 16 bits is read and written back as it is", "[twin]") {
  for (const Format format : {Format::kBfloat16, Format::kFloat16}) {
    int lost = 0;
    for (unsigned bits = 0; bits <= 0xFFFF; ++bits) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      const float value = load(format, &pattern, 0);
      if (std::isnan(value)) continue;
      std::uint16_t back = 0;
      store(format, &back, 0, value);
      lost += back != pattern ? 1 : 0;
    }
    CHECK(lost == 0);
  }
}

TEST_CASE("products of all shapes are those of plain loops", "[twin]") {
  for (const auto& [m, n, k] :
       {std::array<std::size_t, 3>{1, 1, 1}, {3, 5, 7}, {4, 16, 9}, {9, 33, 20}, {17, 15, 64}}) {
    const Values a = some_values(m * k, 1);
    const Values b = some_values(k * n, 2);
    Values c(m * n, 2.0F);
    std::vector<double> expected(m * n, 2.0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t s = 0; s < k; ++s) {
          expected[i * n + j] += static_cast<double>(a[i * k + s]) * b[s * n + j];
        }
      }
    }
    multiply(m, n, k, a.data(), b.data(), c.data(), true);
    CHECK(difference(c, expected) < 1e-6);
  }
}
