#include "cuda/kernels/half.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using cuda::Numbers;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What a number becomes in 16 bits and back, by the definition: the nearest one, of two the even
/// one.
float rounded(Numbers numbers, float value) {
  if (!std::isfinite(value) || value == 0) return value;
  const int digits = numbers == Numbers::kBfloat16 ? 8 : 11;
  const int least =
      numbers == Numbers::kBfloat16 ? -133 : -24;  // exponent of the smallest one's bit
  const float max_finite =
      numbers == Numbers::kBfloat16 ? std::bit_cast<float>(0x7F7F0000U) : 65504.0F;
  const int exponent = std::max(std::ilogb(value) - digits + 1, least);
  const double unit = std::ldexp(1.0, exponent);
  const double nearest = std::nearbyint(value / unit) * unit;
  return std::abs(nearest) > max_finite ? std::copysign(kInfinity, value)
                                        : static_cast<float>(nearest);
}

bool is_same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<unsigned>(a) == std::bit_cast<unsigned>(b);
}

/// Numbers of all sizes, with those at which formats end.
std::vector<float> hard_numbers(std::int64_t count) {
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            65504.0F,
                            65519.0F,
                            65520.0F,
                            1e5F,
                            -1e5F,
                            6e-8F,
                            2.9e-8F,
                            3e-8F,
                            1e-10F,
                            1e-39F,
                            -1e-40F,
                            1e-45F,
                            3.4e38F,
                            kInfinity,
                            -kInfinity,
                            1.0009766F,
                            1.00048828125F,
                            1.0039063F,
                            1.001953125F,
                            std::numeric_limits<float>::quiet_NaN()};
  const auto more = random_floats(count, 5);
  for (std::size_t i = 0; static_cast<std::int64_t>(values.size()) < count; ++i) {
    values.push_back(std::ldexp(more[i], static_cast<int>(i % 60) - 30));
  }
  values.resize(place(count));
  return values;
}

}  // namespace

TEST_CASE("conversions to 16 bits and back round to the nearest, also in tails and unaligned",
          "[kernels]") {
  for (const Numbers numbers : {Numbers::kBfloat16, Numbers::kFloat16}) {
    for (const std::int64_t shift : {0, 1, 2}) {
      for (const std::int64_t count : {1, 3, 4, 30, 1027}) {
        on_each_schedule([&] {
          const TestStream stream;
          const auto values = hard_numbers(count);
          const Array<float> from(values, shift);
          const Array<std::uint16_t> half(count, shift);
          const Array<float> back(count, shift);
          cuda::to_half(stream, numbers, from.at(), half.at(), count);
          cuda::from_half(stream, numbers, half.at(), back.at(), count);
          const auto got = back.values(stream);
          for (std::size_t i = 0; i < got.size(); ++i) {
            INFO(values[i] << " becomes " << got[i] << ", not " << rounded(numbers, values[i]));
            CHECK(is_same(got[i], rounded(numbers, values[i])));
          }
        });
      }
    }
  }
}

TEST_CASE("a scale is a power of two that brings the largest to the target", "[kernels]") {
  for (const float largest : {1e-28F, 3e-8F, 0.7F, 1.0F, 123.0F, 1e30F}) {
    on_each_schedule([largest] {
      const TestStream stream;
      auto values = random_floats(70'000, 6);
      for (float& value : values) value *= largest;
      values[69'999] = -largest;
      const Array<float> from(values);
      const Array<float> scale(1);
      const Array<char> scratch(static_cast<std::int64_t>(cuda::magnitude_scratch()));
      cuda::scale_to(stream, from.at(), 70'000, 16.0F, scale.at(), scratch.at());
      const float got = scale.values(stream)[0];
      int exponent = 0;
      CHECK(std::frexp(got, &exponent) == 0.5F);
      const float brought = got * largest;
      CHECK(brought <= 16.0F);
      CHECK(brought > 8.0F);
    });
  }
}

TEST_CASE("a scale is 1 where all are 0 or one is no number", "[kernels]") {
  for (const float odd : {0.0F, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    on_each_schedule([odd] {
      const TestStream stream;
      std::vector<float> values(1000);
      values[700] = odd;
      const Array<float> from(values);
      const Array<float> scale(1);
      const Array<char> scratch(static_cast<std::int64_t>(cuda::magnitude_scratch()));
      cuda::scale_to(stream, from.at(), 1000, 16.0F, scale.at(), scratch.at());
      CHECK(scale.values(stream)[0] == 1.0F);
    });
  }
}
