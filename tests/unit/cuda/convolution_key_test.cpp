#include "cuda/convolution_key.hpp"

#include <set>

#include "tests/support/catch.hpp"

using namespace taut::cuda;

namespace {

ConvolutionKey lenet() {
  ConvolutionKey key;
  key.n = 64;
  key.c = 1;
  key.h = 28;
  key.w = 28;
  key.top_c = 20;
  key.top_h = 24;
  key.top_w = 24;
  key.kernel_h = 5;
  key.kernel_w = 5;
  return key;
}

}  // namespace

TEST_CASE("two convolutions share a search only where everything is the same", "[cuda]") {
  std::set<ConvolutionKey> known{lenet()};
  CHECK_FALSE(known.insert(lenet()).second);
  const auto differs = [&](auto change) {
    ConvolutionKey key = lenet();
    change(key);
    return known.insert(key).second;
  };
  CHECK(differs([](ConvolutionKey& key) { key.n = 32; }));
  CHECK(differs([](ConvolutionKey& key) { key.stride_w = 2; }));
  CHECK(differs([](ConvolutionKey& key) { key.dilation_h = 2; }));
  CHECK(differs([](ConvolutionKey& key) { key.group = 2; }));
  CHECK(differs([](ConvolutionKey& key) { key.numbers = Numbers::kTf32; }));
  CHECK(differs([](ConvolutionKey& key) { key.deterministic = true; }));
  CHECK(differs([](ConvolutionKey& key) { key.to_bottom = false; }));
}

TEST_CASE("a convolution's name has its shape and its numbers", "[cuda]") {
  CHECK(lenet().to_string() ==
        "convolution of 64x1x28x28 with 20 kernels 5x5, stride 1x1, pad 0x0, float32");
  ConvolutionKey key = lenet();
  key.dilation_h = 2;
  key.group = 4;
  key.numbers = Numbers::kBfloat16;
  key.deterministic = true;
  CHECK(key.to_string() ==
        "convolution of 64x1x28x28 with 20 kernels 5x5, stride 1x1, pad 0x0, dilation 2x1, "
        "4 groups, bfloat16, deterministic");
}
