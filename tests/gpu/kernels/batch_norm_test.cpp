#include "cuda/kernels/batch_norm.hpp"

#include <cmath>
#include <limits>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using cuda::AxisView;

namespace {

constexpr float kEpsilon = 1e-5F;

struct Moments {
  double mean = 0;
  double variance = 0;
};

/// Planes, rows, parts of both, neighbours in fours and not, one channel.
constexpr AxisView kViews[] = {{4, 3, 50},   {4, 3, 48}, {300, 5, 1}, {300, 8, 1},
                               {2, 1, 9000}, {1, 6, 7},  {3, 1, 1}};

/// One shape's numbers, drawn, and what a double computes from them.
struct Case {
  explicit Case(const AxisView& of, bool with_relu, bool with_summands)
      : view(of),
        relu(with_relu),
        x(random_floats(of.count(), 1)),
        dy(random_floats(of.count(), 2)),
        factors(random_floats(of.length, 3)),
        summands(random_floats(of.length, 4)) {
    if (!with_summands) summands.assign(summands.size(), 0.0F);
    const auto n = static_cast<double>(view.positions());
    moments.resize(factors.size());
    for (std::size_t i = 0; i < x.size(); ++i) moments[channel(i)].mean += x[i] / n;
    for (std::size_t i = 0; i < x.size(); ++i) {
      Moments& of_channel = moments[channel(i)];
      of_channel.variance += std::pow(x[i] - of_channel.mean, 2) / n;
    }
    sums.resize(factors.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      sums[channel(i)].mean += slope(i);
      sums[channel(i)].variance += slope(i) * normal(i);
    }
  }
  [[nodiscard]] std::size_t channel(std::size_t i) const {
    return place(static_cast<std::int64_t>(i) / view.inner % view.length);
  }
  [[nodiscard]] double deviation(std::size_t k) const {
    return std::sqrt(moments[k].variance + kEpsilon);
  }
  [[nodiscard]] double normal(std::size_t i) const {
    return (x[i] - moments[channel(i)].mean) / deviation(channel(i));
  }
  [[nodiscard]] double before_relu(std::size_t i) const {
    return normal(i) * factors[channel(i)] + summands[channel(i)];
  }
  [[nodiscard]] double slope(std::size_t i) const {
    return relu && before_relu(i) <= 0 ? 0.0 : dy[i];
  }
  /// The gradient of x.
  [[nodiscard]] double gradient(std::size_t i) const {
    const std::size_t k = channel(i);
    const auto n = static_cast<double>(view.positions());
    return factors[k] / deviation(k) *
           (slope(i) - sums[k].mean / n - normal(i) * sums[k].variance / n);
  }

  AxisView view;
  bool relu;
  std::vector<float> x, dy, factors, summands;
  std::vector<Moments> moments;
  std::vector<Moments> sums;  // of the slopes, and of the slopes times the normalised values
};

}  // namespace

TEST_CASE("a batch norm with its factors and its ReLU is the reference's, and the same bits",
          "[kernels]") {
  for (const AxisView& view : kViews) {
    for (const bool relu : {false, true}) {
      const bool has_summands = relu || view.inner != 1;
      const Case test(view, relu, has_summands);
      std::vector<float> bits;
      on_each_schedule([&] {
        const TestStream stream;
        const Array<float> bottom(test.x);
        const Array<float> slopes(test.dy);
        const Array<float> factors(test.factors);
        const Array<float> summands(test.summands);
        const Array<float> top(view.count());
        const Array<float> gradient(view.count());
        const Array<float> factors_gradient(view.length);
        const Array<float> summands_gradient(view.length);
        const Array<float> numbers(6 * view.length);
        const auto part = [&](std::int64_t k) { return numbers.at() + k * view.length; };
        const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch(view)));
        cuda::batch_norm_statistics(stream, view, bottom.at(), kEpsilon, part(4), part(5), part(0),
                                    part(1), scratch.at());
        const cuda::ScaledBatchNorm given{.shift = part(0),
                                          .factor = part(1),
                                          .factors = factors.at(),
                                          .summands = has_summands ? summands.at() : nullptr,
                                          .relu = relu};
        cuda::scaled_batch_norm_forward(stream, view, given, bottom.at(), top.at());
        cuda::scaled_batch_norm_sums(stream, view, given, bottom.at(), slopes.at(),
                                     factors_gradient.at(), summands_gradient.at(), part(2),
                                     part(3), scratch.at());
        cuda::scaled_batch_norm_backward(stream, view, given, bottom.at(), slopes.at(), part(2),
                                         part(3), gradient.at());
        const auto got_top = top.values(stream);
        const auto got = gradient.values(stream);
        const auto got_factors = factors_gradient.values(stream);
        const auto got_summands = summands_gradient.values(stream);
        INFO(view.outer << " x " << view.length << " x " << view.inner << ", relu " << relu);
        // Of one place in a channel the deviation is 0, and its inverse large.
        const double margin = view.positions() == 1 ? 1e-1 : 2e-4;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double y = test.before_relu(i);
          CHECK(got_top[i] == Approx(relu && y <= 0 ? 0 : y).margin(2e-4));
          CHECK(got[i] == Approx(test.gradient(i)).margin(margin));
        }
        for (std::size_t k = 0; k < got_factors.size(); ++k) {
          CHECK(got_summands[k] == Approx(test.sums[k].mean).margin(1e-3));
          CHECK(got_factors[k] == Approx(test.sums[k].variance).margin(1e-3));
        }
        if (bits.empty()) bits = got;
        CHECK(bits == got);
        // Parameters without gradients; the means are computed all the same.
        cuda::scaled_batch_norm_sums(stream, view, given, bottom.at(), slopes.at(), nullptr,
                                     nullptr, part(4), part(5), scratch.at());
        const auto all = numbers.values(stream);
        for (std::int64_t k = 0; k < 2 * view.length; ++k) {
          CHECK(all[place(2 * view.length + k)] == all[place(4 * view.length + k)]);
        }
      });
    }
  }
}

TEST_CASE("running statistics keep their share and take the newest numbers", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    constexpr std::int64_t kChannels = 300;
    const auto mean = random_floats(kChannels, 1);
    const auto variance = random_floats(kChannels, 2);
    const auto mean_sum = random_floats(kChannels, 3);
    const auto variance_sum = random_floats(kChannels, 4);
    const Array<float> means(mean);
    const Array<float> variances(variance);
    const Array<float> mean_sums(mean_sum);
    const Array<float> variance_sums(variance_sum);
    const Array<float> weight_sum(std::vector<float>{3.0F});
    const Array<float> next_mean(kChannels);
    const Array<float> next_variance(kChannels);
    const Array<float> next_weight(1);
    cuda::RunningStatistics sums{.mean_sum = mean_sums.at(),
                                 .variance_sum = variance_sums.at(),
                                 .weight_sum = weight_sum.at(),
                                 .mean = means.at(),
                                 .variance = variances.at(),
                                 .next_mean_sum = next_mean.at(),
                                 .next_variance_sum = next_variance.at(),
                                 .next_weight_sum = next_weight.at()};
    cuda::running_statistics(stream, kChannels, 0.5F, 2.0F, sums);
    const auto got_mean = next_mean.values(stream);
    const auto got_variance = next_variance.values(stream);
    for (std::size_t k = 0; k < got_mean.size(); ++k) {
      CHECK(got_mean[k] == Approx(0.5F * mean_sum[k] + mean[k]));
      CHECK(got_variance[k] == Approx(0.5F * variance_sum[k] + 2.0F * variance[k]));
    }
    CHECK(next_weight.values(stream)[0] == 2.5F);
    // A frozen table has no next values.
    sums.next_mean_sum = nullptr;
    sums.next_variance_sum = nullptr;
    sums.next_weight_sum = nullptr;
    cuda::running_statistics(stream, kChannels, 0.5F, 2.0F, sums);
    CHECK(next_mean.values(stream) == got_mean);
  });
}

TEST_CASE("the statistics of a batch are the reference's and the same bits in every run",
          "[kernels]") {
  for (const AxisView& view : {AxisView{4, 3, 50}, {300, 5, 1}, {2, 1, 9000}, {1, 6, 7}}) {
    std::vector<float> bits;
    on_each_schedule([&] {
      const TestStream stream;
      auto x = random_floats(view.count(), 1);
      for (float& value : x) value += 100;
      const Array<float> bottom(x);
      const Array<float> mean(view.length);
      const Array<float> variance(view.length);
      const Array<float> shift(view.length);
      const Array<float> factor(view.length);
      const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch(view)));
      cuda::batch_norm_statistics(stream, view, bottom.at(), kEpsilon, mean.at(), variance.at(),
                                  shift.at(), factor.at(), scratch.at());
      std::vector<Moments> expected(place(view.length));
      const auto n = static_cast<double>(view.positions());
      const auto channel = [&](std::int64_t i) { return place(i / view.inner % view.length); };
      for (std::int64_t i = 0; i < view.count(); ++i) expected[channel(i)].mean += x[place(i)] / n;
      for (std::int64_t i = 0; i < view.count(); ++i) {
        Moments& of = expected[channel(i)];
        of.variance += std::pow(x[place(i)] - of.mean, 2) / n;
      }
      const auto means = mean.values(stream);
      const auto variances = variance.values(stream);
      for (std::size_t k = 0; k < expected.size(); ++k) {
        CHECK(means[k] == Approx(expected[k].mean));
        CHECK(variances[k] == Approx(expected[k].variance).epsilon(1e-5));
      }
      const auto factors = factor.values(stream);
      if (bits.empty()) bits = factors;
      CHECK(bits == factors);
    });
  }
}

TEST_CASE("a number that is none shows in the statistics", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const AxisView view{4, 2, 50};
    auto x = random_floats(view.count(), 1);
    x[60] = std::numeric_limits<float>::quiet_NaN();  // of channel 1
    const Array<float> bottom(x);
    const Array<float> mean(2);
    const Array<float> variance(2);
    const Array<float> shift(2);
    const Array<float> factor(2);
    const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch(view)));
    cuda::batch_norm_statistics(stream, view, bottom.at(), kEpsilon, mean.at(), variance.at(),
                                shift.at(), factor.at(), scratch.at());
    CHECK(std::isfinite(factor.values(stream)[0]));
    CHECK(std::isnan(mean.values(stream)[1]));
    CHECK(std::isnan(variance.values(stream)[1]));
    CHECK(std::isnan(factor.values(stream)[1]));
  });
}
