#include "cuda/kernels/reduce.hpp"

#include <cmath>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using cuda::AxisView;

namespace {

std::vector<double> sums_of(const AxisView& view, const std::vector<float>& values) {
  std::vector<double> sums(place(view.length));
  for (std::int64_t i = 0; i < view.count(); ++i) {
    sums[place(i / view.inner % view.length)] += values[place(i)];
  }
  return sums;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& expected,
                  double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i);
    CHECK(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

const AxisView kViews[] = {
    {1, 1, 1},    {1, 1, 5000},   {3, 7, 11},   {70, 33, 1}, {9000, 40, 1},
    {2, 3, 9000}, {1, 1, 100000}, {64, 2, 300}, {5, 1, 1},   {1, 700, 1},
};

}  // namespace

TEST_CASE("sums for each channel have the reference's values and the same bits in every run",
          "[kernels]") {
  for (const AxisView& view : kViews) {
    INFO("view " << view.outer << ", " << view.length << ", " << view.inner);
    const auto values = random_floats(view.count(), 1);
    std::vector<float> first;
    on_each_schedule([&] {
      const TestStream stream;
      const Array<float> in(values);
      const Array<float> out(view.length);
      const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch(view)));
      cuda::channel_sums(stream, view, in.at(), out.at(), scratch.at());
      const auto got = out.values(stream);
      expect_close(got, sums_of(view, values), 1e-6);
      if (first.empty()) first = got;
      CHECK(got == first);
    });
  }
}

TEST_CASE("a sum of squares is added to the kept sum", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const auto values = random_floats(70'001, 2);
    double expected = 0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    const Array<float> in(values);
    const Array<double> total(std::vector<double>{3});
    const Array<char> scratch(static_cast<std::int64_t>(cuda::reduce_scratch({1, 1, 70'001})));
    cuda::sum_of_squares(stream, in.at(), 70'001, total.at(), true, scratch.at());
    CHECK(total.values(stream)[0] == Approx(3 + expected));
    cuda::sum_of_squares(stream, in.at(), 70'001, total.at(), false, scratch.at());
    CHECK(total.values(stream)[0] == Approx(expected));
  });
}

TEST_CASE("rows shorter and longer than a block are reduced", "[kernels]") {
  struct Rows {
    std::int64_t rows;
    std::int64_t length;
  };
  // The last one is shared by several blocks.
  for (const auto& [rows, length] :
       {Rows{5, 1}, {5, 31}, {5, 255}, {5, 256}, {5, 257}, {5, 1000}, {300, 20}, {1, 20'000}}) {
    on_each_schedule([rows = rows, length = length] {
      const TestStream stream;
      const auto values = random_floats(rows * length, 3);
      const Array<float> in(values);
      const Array<float> out(rows);
      const Array<char> scratch(
          static_cast<std::int64_t>(cuda::row_reduction_scratch(rows, length)));
      cuda::row_reduction(stream, cuda::SumOf::kAbsolutes, 0.5F, rows, length, in.at(), out.at(),
                          scratch.at());
      std::vector<double> expected(place(rows));
      for (std::int64_t i = 0; i < rows * length; ++i) {
        expected[place(i / length)] += 0.5 * std::abs(values[place(i)]);
      }
      expect_close(out.values(stream), expected, 1e-6);
    });
  }
}
