// cuda::Matmul alone, on a device or the twin.
#include "cuda/matmul.hpp"

#include <cmath>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::int64_t kSide = 16;

/// A product with a bias that is `offset` floats behind a multiple of 256 bytes.
std::vector<float> product_with_bias_at(cuda::Matmul& product, std::int64_t offset) {
  const TestStream stream;
  const Array<float> a(random_floats(kSide * kSide, 1));
  const Array<float> b(random_floats(kSide * kSide, 2));
  const Array<float> bias(random_floats(kSide + offset, 3));
  const Array<float> c(kSide * kSide);
  const Array<char> workspace(static_cast<std::int64_t>(product.workspace()) + 1);
  product.run(stream, a.at(), b.at(), bias.at() + offset, c.at(), workspace.at());
  return c.values(stream);
}

std::vector<double> expected_at(std::int64_t offset) {
  const auto a = random_floats(kSide * kSide, 1);
  const auto b = random_floats(kSide * kSide, 2);
  const auto bias = random_floats(kSide + offset, 3);
  std::vector<double> out;
  for (std::int64_t i = 0; i < kSide; ++i) {
    for (std::int64_t j = 0; j < kSide; ++j) {
      double sum = bias[place(offset + j)];
      for (std::int64_t k = 0; k < kSide; ++k) {
        sum += static_cast<double>(a[place(i * kSide + k)]) * b[place(k * kSide + j)];
      }
      out.push_back(sum);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a product's algorithm fits a bias at any address", "[wrappers]") {
  const cuda::CublasLtHandle library = cuda::make_cublas_lt();
  cuda::Matmul product(library.get(),
                       {.rows = kSide, .inner = kSide, .columns = kSide, .bias = true});
  // From the widest alignment to the least: what was chosen for one is not taken for another.
  for (const std::int64_t offset : {0, 8, 4, 2, 1}) {
    INFO("a bias " << offset << " floats behind");
    const auto found = product_with_bias_at(product, offset);
    const auto expected = expected_at(offset);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(std::abs(found[i] - expected[i]) < 1e-5);
    }
  }
}
