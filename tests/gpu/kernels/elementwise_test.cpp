#include "cuda/kernels/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

TEST_CASE("vectors and their tails are filled, whether aligned or not", "[kernels]") {
  for (const std::int64_t shift : {0, 1, 3}) {
    for (const std::int64_t count : {0, 1, 3, 4, 5, 255, 257, 1024, 4099}) {
      on_each_schedule([&] {
        const TestStream stream;
        const auto values = random_floats(count, 1);
        const Array<float> from(values, shift);
        const Array<float> into(values, shift);
        cuda::add(stream, from.at(), into.at(), count);
        const auto got = into.values(stream);
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == values[i] + values[i]);
      });
    }
  }
}

TEST_CASE("a grid's second stride reaches the last elements", "[kernels]") {
  // More than all blocks of a grid have threads for.
  const std::int64_t count = 16'384LL * 256 + 37;
  const TestStream stream;
  const Array<float> to(count);
  cuda::fill(stream, to.at(), count, 2.5F);
  const auto got = to.values(stream);
  CHECK(got.front() == 2.5F);
  CHECK(got[got.size() - 37] == 2.5F);
  CHECK(got.back() == 2.5F);
}

TEST_CASE("a weighted sum of more than eight terms may write over one of them", "[kernels]") {
  for (const std::size_t target : {0U, 3U, 9U}) {
    on_each_schedule([target] {
      const TestStream stream;
      const std::int64_t count = 300;
      std::vector<std::vector<float>> values;
      std::vector<std::unique_ptr<Array<float>>> arrays;
      std::vector<cuda::Scaled> terms;
      std::vector<double> expected(place(count));
      for (unsigned k = 0; k < 10; ++k) {
        values.push_back(random_floats(count, k));
        arrays.push_back(std::make_unique<Array<float>>(values.back()));
        const auto factor = static_cast<float>(k) - 4.5F;
        terms.push_back({arrays.back()->at(), factor});
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += factor * values[k][i];
      }
      cuda::weighted_sum(stream, terms, arrays[target]->at(), count);
      const auto got = arrays[target]->values(stream);
      for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK(std::abs(got[i] - expected[i]) < 1e-5);
      }
    });
  }
}

TEST_CASE("an array may occur twice among more terms than one launch takes", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const std::int64_t count = 300;
    const auto values = random_floats(count, 1);
    const auto other = random_floats(count, 2);
    const Array<float> out(values);
    const Array<float> more(other);
    std::vector<cuda::Scaled> terms(10, {more.at(), 1.0F});
    terms[2] = {out.at(), 2.0F};
    terms[9] = {out.at(), 3.0F};
    cuda::weighted_sum(stream, terms, out.at(), count);
    const auto got = out.values(stream);
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(std::abs(got[i] - (5 * values[i] + 8 * other[i])) < 1e-5);
    }
  });
}

TEST_CASE("a sum of negative zeros stays negative", "[kernels]") {
  const TestStream stream;
  const Array<float> zero(std::vector<float>{-0.0F, 0.0F});
  const Array<float> out(2);
  const cuda::Scaled terms[]{{zero.at(), 1.0F}, {zero.at(), 1.0F}};
  cuda::weighted_sum(stream, terms, out.at(), 2);
  const auto got = out.values(stream);
  CHECK(std::signbit(got[0]));
  CHECK(!std::signbit(got[1]));
}

TEST_CASE("a weighted sum is cut off below 0 at its end only", "[kernels]") {
  for (const std::int64_t shift : {0, 1}) {
    on_each_schedule([shift] {
      const TestStream stream;
      const std::int64_t count = 301;
      std::vector<std::vector<float>> values;
      std::vector<std::unique_ptr<Array<float>>> arrays;
      std::vector<cuda::Scaled> terms;
      std::vector<double> expected(place(count));
      for (unsigned k = 0; k < 10; ++k) {
        values.push_back(random_floats(count, k));
        if (k == 0) values.back()[7] = std::nanf("");
        arrays.push_back(std::make_unique<Array<float>>(values.back(), shift));
        terms.push_back({arrays.back()->at(), 2.0F});
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += 2.0F * values[k][i];
      }
      const Array<float> out(count, shift);
      cuda::weighted_sum(stream, terms, out.at(), count, true);
      const auto got = out.values(stream);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i == 7) {
          CHECK(std::isnan(got[i]));
        } else {
          CHECK(got[i] == Approx(std::max(expected[i], 0.0)).margin(1e-5));
        }
      }
    });
  }
}

TEST_CASE("the gradient of a sum that is cut off below 0 goes to both parts", "[kernels]") {
  for (const std::int64_t shift : {0, 1}) {
    on_each_schedule([shift] {
      const TestStream stream;
      const std::int64_t count = 301;
      const auto y = random_floats(count, 1);
      const auto dy = random_floats(count, 2);
      const Array<float> top(y, shift);
      const Array<float> slopes(dy, shift);
      const Array<float> first(count, shift);
      const Array<float> second(count, shift);
      cuda::rectified_sum_backward(stream, top.at(), slopes.at(), {first.at(), 1.0F},
                                   {second.at(), -2.0F}, count);
      const auto got_first = first.values(stream);
      const auto got_second = second.values(stream);
      for (std::size_t i = 0; i < got_first.size(); ++i) {
        CHECK(got_first[i] == (y[i] > 0 ? dy[i] : 0));
        CHECK(got_second[i] == (y[i] > 0 ? -2 * dy[i] : 0));
      }
      cuda::rectified_sum_backward(stream, top.at(), slopes.at(), {nullptr, 1.0F},
                                   {second.at(), 3.0F}, count);
      CHECK(second.values(stream)[0] == (y[0] > 0 ? 3 * dy[0] : 0));
    });
  }
}

TEST_CASE("factors and slopes are each index's own, in fours and by themselves", "[kernels]") {
  for (const cuda::AxisView& view :
       {cuda::AxisView{3, 5, 16}, {3, 5, 7}, {9, 12, 1}, {9, 7, 1}, {1, 1, 40}, {2, 3, 4}}) {
    for (const std::int64_t shift : {0, 1}) {
      on_each_schedule([&] {
        const TestStream stream;
        const auto x = random_floats(view.count(), 1);
        const auto dy = random_floats(view.count(), 2);
        const auto factor = random_floats(view.length, 3);
        const auto summand = random_floats(view.length, 4);
        const Array<float> bottom(x, shift);
        const Array<float> slopes(dy, shift);
        const Array<float> factors(factor);
        const Array<float> summands(summand);
        const Array<float> top(view.count(), shift);
        const Array<float> rectified(view.count(), shift);
        const Array<float> bent(view.count(), shift);
        const Array<float> gradient(view.count(), shift);
        cuda::affine_forward(stream, view, bottom.at(), factors.at(), summands.at(), top.at());
        cuda::affine_forward(stream, view, bottom.at(), nullptr, summands.at(), rectified.at(),
                             true);
        cuda::prelu_forward(stream, view, bottom.at(), factors.at(), bent.at());
        cuda::prelu_backward(stream, view, bottom.at(), factors.at(), slopes.at(), gradient.at());
        const auto got = top.values(stream);
        const auto got_rectified = rectified.values(stream);
        const auto got_bent = bent.values(stream);
        const auto got_gradient = gradient.values(stream);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t k = place(static_cast<std::int64_t>(i) / view.inner % view.length);
          INFO(view.outer << " x " << view.length << " x " << view.inner << ", element " << i);
          CHECK(got[i] == Approx(x[i] * factor[k] + summand[k]).margin(1e-6));
          CHECK(got_rectified[i] == Approx(std::max(x[i] + summand[k], 0.0F)).margin(1e-6));
          CHECK(got_bent[i] == Approx(x[i] > 0 ? x[i] : factor[k] * x[i]).margin(1e-6));
          CHECK(got_gradient[i] == Approx(x[i] > 0 ? dy[i] : factor[k] * dy[i]).margin(1e-6));
        }
      });
    }
  }
}

TEST_CASE("what is dropped does not depend on how arrays are aligned", "[kernels]") {
  const cuda::DropoutDraw draw{.key = 5, .stream = 7, .ratio = 0.25F};
  const std::int64_t count = 1027;
  const auto x = random_floats(count, 1);
  std::vector<float> expected;
  for (const std::int64_t shift : {0, 1}) {
    on_each_schedule([&] {
      const TestStream stream;
      const Array<float> from(x, shift);
      const Array<float> to(count, shift);
      const Array<std::int64_t> clock(std::vector<std::int64_t>{3});
      cuda::dropout(stream, draw, clock.at(), from.at(), to.at(), count);
      const auto got = to.values(stream);
      if (expected.empty()) expected = got;
      CHECK(got == expected);
      for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK((got[i] == 0 || got[i] == Approx(x[i] / 0.75F)));
      }
    });
  }
}
