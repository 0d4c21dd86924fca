#include "cuda/kernels/normalize.hpp"

#include <cmath>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr float kEpsilon = 1e-5F;

struct Moments {
  double mean = 0;
  double variance = 0;
};

}  // namespace

TEST_CASE("rows of all lengths are normalized, forward and backward", "[kernels]") {
  for (const std::int64_t columns : {1, 2, 31, 255, 256, 257, 700}) {
    on_each_schedule([columns] {
      const TestStream stream;
      const std::int64_t rows = 7;
      const auto x = random_floats(rows * columns, 1);
      const auto weight = random_floats(columns, 2);
      const auto bias = random_floats(columns, 3);
      const auto dy = random_floats(rows * columns, 4);
      const Array<float> bottom(x);
      const Array<float> weights(weight);
      const Array<float> biases(bias);
      const Array<float> slopes(dy);
      const Array<float> top(rows * columns);
      const Array<float> normalised(rows * columns);
      const Array<float> inverse(rows);
      const Array<float> gradient(rows * columns);
      constexpr auto kDivisor = cuda::LayerNormDivisor::kRootOfSum;
      cuda::layer_norm_forward(stream, rows, columns, kEpsilon, kDivisor, bottom.at(), weights.at(),
                               biases.at(), top.at(), normalised.at(), inverse.at());
      cuda::layer_norm_backward(stream, rows, columns, kDivisor, normalised.at(), inverse.at(),
                                weights.at(), slopes.at(), gradient.at());
      const auto got_top = top.values(stream);
      const auto got = gradient.values(stream);
      const auto n = static_cast<double>(columns);
      for (std::int64_t row = 0; row < rows; ++row) {
        Moments of;
        for (std::int64_t i = 0; i < columns; ++i) of.mean += x[place(row * columns + i)] / n;
        for (std::int64_t i = 0; i < columns; ++i) {
          of.variance += std::pow(x[place(row * columns + i)] - of.mean, 2) / n;
        }
        const double factor = 1 / std::sqrt(of.variance + kEpsilon);
        double mean_g = 0;
        double mean_gy = 0;
        for (std::int64_t i = 0; i < columns; ++i) {
          const double g = dy[place(row * columns + i)] * weight[place(i)];
          mean_g += g / n;
          mean_gy += g * (x[place(row * columns + i)] - of.mean) * factor / n;
        }
        for (std::int64_t i = 0; i < columns; ++i) {
          const std::size_t at = place(row * columns + i);
          const double y = (x[at] - of.mean) * factor;
          INFO(columns << " columns, row " << row << ", column " << i);
          CHECK(std::abs(got_top[at] - (y * weight[place(i)] + bias[place(i)])) < 1e-4);
          const double expected = factor * (dy[at] * weight[place(i)] - mean_g - y * mean_gy);
          CHECK(std::abs(got[at] - expected) < 1e-3 * (1 + std::abs(expected)));
        }
      }
    });
  }
}

TEST_CASE("local response normalization has the reference's values", "[kernels]") {
  for (const bool within : {false, true}) {
    on_each_schedule([within] {
      const TestStream stream;
      const cuda::LrnShape shape{.n = 2,
                                 .c = 7,
                                 .h = 5,
                                 .w = 6,
                                 .size = 5,
                                 .within_channel = within,
                                 .alpha = 0.5F,
                                 .beta = 0.75F,
                                 .k = 2};
      const std::int64_t count = 2 * 7 * 5 * 6;
      const auto x = random_floats(count, 1);
      const Array<float> bottom(x);
      const Array<float> scale(count);
      const Array<float> top(count);
      cuda::lrn_forward(stream, shape, bottom.at(), scale.at(), top.at());
      const auto got = top.values(stream);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t column = i % 6;
        const std::int64_t row = i / 6 % 5;
        const std::int64_t c = i / 30 % 7;
        double squares = 0;
        for (std::int64_t dy = within ? -2 : 0; dy <= (within ? 2 : 0); ++dy) {
          for (std::int64_t d = -2; d <= 2; ++d) {
            const bool inside =
                within ? row + dy >= 0 && row + dy < 5 && column + d >= 0 && column + d < 6
                       : c + d >= 0 && c + d < 7;
            const std::int64_t at = within ? i + dy * 6 + d : i + d * 30;
            if (inside) squares += std::pow(x[place(at)], 2);
          }
        }
        const double base = 2 + 0.5 * squares / (within ? 25 : 5);
        CHECK(got[place(i)] == Approx(x[place(i)] * std::pow(base, -0.75)).margin(1e-6));
      }
    });
  }
}
