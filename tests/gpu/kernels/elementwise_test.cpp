#include "cuda/kernels/elementwise.hpp"

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
