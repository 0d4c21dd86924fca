#include "cuda/kernels/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using cuda::AxisView;

namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
const AxisView kViews[] = {{6, 10, 1}, {5, 33, 1},  {3, 100, 1}, {2, 7, 9},
                           {2, 1, 40}, {3, 700, 1}, {1, 5000, 1}};

float contrastive_loss(float spoilt, bool legacy, bool similar) {
  const TestStream stream;
  const cuda::ContrastiveShape shape{.pairs = 5, .features = 3, .margin = 1, .legacy = legacy};
  auto values = random_floats(15, 1);
  values[7] = spoilt;
  const Array<float> a(values);
  const Array<float> b(random_floats(15, 2));
  const Array<float> same(std::vector<float>(5, similar ? 1.0F : 0.0F));
  const Array<float> loss(1);
  const Array<char> scratch(static_cast<std::int64_t>(cuda::contrastive_scratch(shape)));
  cuda::contrastive_forward(stream, shape, a.at(), b.at(), same.at(), loss.at(), scratch.at());
  return loss.values(stream)[0];
}

}  // namespace

TEST_CASE("softmax and its way back have the reference's values", "[kernels]") {
  for (const AxisView& view : kViews) {
    on_each_schedule([&view] {
      const TestStream stream;
      const auto x = random_floats(view.count(), 1);
      const auto dy = random_floats(view.count(), 2);
      const Array<float> bottom(x);
      const Array<float> slopes(dy);
      const Array<float> top(view.count());
      const Array<float> gradient(view.count());
      cuda::softmax_forward(stream, view, bottom.at(), top.at());
      cuda::softmax_backward(stream, view, top.at(), slopes.at(), gradient.at());
      const auto y = top.values(stream);
      const auto dx = gradient.values(stream);
      for (std::int64_t p = 0; p < view.positions(); ++p) {
        const auto at = [&](std::int64_t k) {
          return place(p / view.inner * view.length * view.inner + k * view.inner + p % view.inner);
        };
        double sum = 0;
        double along = 0;
        for (std::int64_t k = 0; k < view.length; ++k) sum += std::exp(double{x[at(k)]});
        for (std::int64_t k = 0; k < view.length; ++k) {
          along += std::exp(double{x[at(k)]}) / sum * dy[at(k)];
        }
        for (std::int64_t k = 0; k < view.length; ++k) {
          const double expected = std::exp(double{x[at(k)]}) / sum;
          CHECK(std::abs(y[at(k)] - expected) < 1e-5);
          CHECK(std::abs(dx[at(k)] - expected * (dy[at(k)] - along)) < 1e-5);
        }
      }
    });
  }
}

TEST_CASE("a loss counts its labels, omits ignored ones and records a bad one", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const AxisView view{300, 4, 1};
    auto labels = random_floats(300, 3);
    for (float& label : labels) label = std::floor((label + 1) * 2);  // 0 to 3
    labels[10] = 255;                                                 // ignored
    // No classes: of several, the first one is recorded, in whatever order threads find them.
    labels[200] = 7;
    labels[231] = 8;
    labels[299] = 9;
    const std::vector<float> likely(1200, 0.25F);
    const Array<float> probabilities(likely);
    const Array<float> truth(labels);
    const Array<cuda::Fault> fault(std::vector<cuda::Fault>(1));
    const Array<float> loss(1);
    const Array<double> divisor(1);
    const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch({1, 1, 300})));
    cuda::softmax_loss_forward(
        stream, view, probabilities.at(),
        {.at = truth.at(), .ignores = true, .ignored = 255, .fault = fault.at()}, {.counted = true},
        loss.at(), divisor.at(), scratch.at());
    CHECK(loss.values(stream)[0] == Approx(std::log(4.0)));
    CHECK(divisor.values(stream)[0] == 296);
    const cuda::Fault found = fault.values(stream)[0];
    CHECK(found.kind == cuda::Fault::kLabel);
    CHECK(found.value() == 7);
    CHECK(found.position() == 200);
    CHECK(found.limit == 4);
  });
}

TEST_CASE("of equal scores the lower index ranks first", "[kernels]") {
  for (const AxisView& view : {AxisView{20, 9, 1}, {3, 6, 8}}) {
    on_each_schedule([&view] {
      const TestStream stream;
      auto x = random_floats(view.count(), 1);
      for (float& value : x) value = std::round(value);
      const Array<float> bottom(x);
      const std::int64_t top_k = 3;
      const Array<float> indices(view.positions() * top_k);
      const Array<float> values(view.positions() * top_k);
      const cuda::RankSteps steps{.outer = top_k * view.inner, .rank = view.inner, .inner = 1};
      cuda::arg_max(stream, view, bottom.at(), top_k, steps, indices.at(), values.at());
      const auto got = indices.values(stream);
      for (std::int64_t p = 0; p < view.positions(); ++p) {
        const std::int64_t o = p / view.inner;
        const std::int64_t i = p % view.inner;
        const auto value = [&](std::int64_t k) {
          return x[place((o * view.length + k) * view.inner + i)];
        };
        std::vector<std::int64_t> order;
        for (std::int64_t k = 0; k < view.length; ++k) order.push_back(k);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int64_t a, std::int64_t b) { return value(a) > value(b); });
        for (std::int64_t rank = 0; rank < top_k; ++rank) {
          const std::size_t at = place(o * steps.outer + rank * steps.rank + i);
          CHECK(got[at] == static_cast<float>(order[place(rank)]));
        }
      }
    });
  }
}

TEST_CASE("a label is right if few other classes score as high", "[kernels]") {
  for (const AxisView& view : {AxisView{70, 9, 1}, {40, 300, 1}, {5, 6, 8}}) {
    on_each_schedule([&view] {
      const TestStream stream;
      auto x = random_floats(view.count(), 1);
      for (float& value : x) value = std::round(value * 3);  // equal scores meet
      x[3] = kNone;
      auto labels = random_floats(view.positions(), 2);
      for (float& label : labels) label = std::floor((label + 1) * 2);  // 0 to 3
      labels[4] = 255;                                                  // ignored
      labels[9] = 1000;                                                 // no class
      const std::int64_t top_k = 2;
      const Array<float> scores(x);
      const Array<float> truth(labels);
      const Array<cuda::Fault> fault(std::vector<cuda::Fault>(1));
      const Array<float> accuracy(1);
      const Array<float> by_class(view.length);
      const Array<char> scratch(static_cast<std::int64_t>(cuda::accuracy_scratch(view)));
      cuda::accuracy(stream, view, scores.at(),
                     {.at = truth.at(), .ignores = true, .ignored = 255, .fault = fault.at()},
                     top_k, accuracy.at(), by_class.at(), scratch.at());
      std::vector<double> right(place(view.length));
      std::vector<double> all(place(view.length));
      for (std::int64_t p = 0; p < view.positions(); ++p) {
        const float label = labels[place(p)];
        if (label > 3) continue;
        const std::int64_t first = p / view.inner * view.length * view.inner + p % view.inner;
        const auto score = [&](std::int64_t k) { return x[place(first + k * view.inner)]; };
        const auto own = static_cast<std::int64_t>(label);
        int rivals = 0;
        for (std::int64_t k = 0; k < view.length; ++k) {
          if (k != own && !(score(k) < score(own))) ++rivals;
        }
        all[place(own)] += 1;
        if (rivals < top_k) right[place(own)] += 1;
      }
      double total = 0;
      double counted = 0;
      const auto got = by_class.values(stream);
      for (std::size_t k = 0; k < right.size(); ++k) {
        CHECK(got[k] == Approx(right[k] / std::max(all[k], 1.0)));
        total += right[k];
        counted += all[k];
      }
      CHECK(accuracy.values(stream)[0] == Approx(total / counted));
      const cuda::Fault found = fault.values(stream)[0];
      CHECK(found.kind == cuda::Fault::kLabel);
      CHECK(found.position() == 9);
    });
  }
}

TEST_CASE("the contrastive loss and its way back have the reference's values", "[kernels]") {
  for (const std::int64_t features : {1, 31, 33, 300}) {
    for (const bool legacy : {false, true}) {
      on_each_schedule([&] {
        const TestStream stream;
        const cuda::ContrastiveShape shape{
            .pairs = 13, .features = features, .margin = 1.5F, .legacy = legacy};
        auto x = random_floats(13 * features, 1);
        auto y = random_floats(13 * features, 2);
        for (float& value : x) value /= std::sqrt(static_cast<float>(features));
        for (float& value : y) value /= std::sqrt(static_cast<float>(features));
        std::vector<float> same(13);
        for (std::size_t i = 0; i < same.size(); i += 3) same[i] = 1;
        const Array<float> a(x);
        const Array<float> b(y);
        const Array<float> similar(same);
        const Array<float> loss(1);
        const Array<float> a_gradient(13 * features);
        const Array<float> b_gradient(13 * features);
        const Array<char> scratch(static_cast<std::int64_t>(cuda::contrastive_scratch(shape)));
        cuda::contrastive_forward(stream, shape, a.at(), b.at(), similar.at(), loss.at(),
                                  scratch.at());
        cuda::contrastive_backward(stream, shape, a.at(), b.at(), similar.at(), 2.0F,
                                   a_gradient.at(), b_gradient.at());
        const auto got_a = a_gradient.values(stream);
        const auto got_b = b_gradient.values(stream);
        double sum = 0;
        for (std::int64_t p = 0; p < 13; ++p) {
          double square = 0;
          for (std::int64_t i = p * features; i < (p + 1) * features; ++i) {
            square += std::pow(double{x[place(i)]} - y[place(i)], 2);
          }
          const double distance = std::sqrt(square);
          const double gap = std::max(1.5 - (legacy ? square : distance), 0.0);
          double slope = 1;  // of the pair's half sum with respect to a - b
          if (same[place(p)] != 0) {
            sum += square;
          } else {
            sum += legacy ? gap : gap * gap;
            slope = legacy ? (gap > 0 ? -1 : 0) : -gap / std::max(distance, 1e-4);
          }
          for (std::int64_t i = p * features; i < (p + 1) * features; ++i) {
            const double expected = 2.0 / 13 * slope * (double{x[place(i)]} - y[place(i)]);
            CHECK(std::abs(got_a[place(i)] - expected) < 1e-5);
            CHECK(got_b[place(i)] == -got_a[place(i)]);
          }
        }
        CHECK(loss.values(stream)[0] == Approx(sum / 13 / 2));
      });
    }
  }
}

TEST_CASE("a number that is none shows in the contrastive and the hinge loss", "[kernels]") {
  on_each_schedule([] {
    for (const bool legacy : {false, true}) {
      for (const bool similar : {false, true}) {
        CHECK(std::isfinite(contrastive_loss(0.5F, legacy, similar)));
        CHECK(std::isnan(contrastive_loss(kNone, legacy, similar)));
      }
    }
    for (const bool squared : {false, true}) {
      const TestStream stream;
      auto scores = random_floats(20, 1);
      scores[11] = kNone;
      const Array<float> a(scores);
      const Array<float> truth(std::vector<float>{0, 1, 2, 3, 0});
      const Array<float> loss(1);
      const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch({1, 1, 20})));
      cuda::hinge_forward(stream, a.at(), {.at = truth.at()}, 5, 4, squared, loss.at(),
                          scratch.at());
      CHECK(std::isnan(loss.values(stream)[0]));
    }
  });
}
