// cuda::Convolution by itself, on a device or the twin: which algorithms it takes.
#include "cuda/convolution.hpp"

#include <stdexcept>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using cuda::ConvolutionKey;
using cuda::Numbers;

namespace {

ConvolutionKey key_of(std::int64_t channels, Numbers numbers) {
  return {.n = 2,
          .c = channels,
          .h = 12,
          .w = 12,
          .top_c = 8,
          .top_h = 12,
          .top_w = 12,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_h = 1,
          .pad_w = 1,
          .numbers = numbers};
}

}  // namespace

TEST_CASE("a convolution's algorithms keep to their workspace", "[wrappers]") {
  const cuda::CudnnHandle library = cuda::make_cudnn();
  for (const Numbers numbers :
       {Numbers::kFloat32, Numbers::kTf32, Numbers::kBfloat16, Numbers::kFloat16}) {
    // Each shape is searched again; some are answered for another way to multiply.
    for (std::int64_t channels = 1; channels <= 24; ++channels) {
      for (const std::size_t limit : {std::size_t{0}, std::size_t{3000}, std::size_t{20000}}) {
        cuda::ConvolutionCache cache;
        ConvolutionKey key = key_of(channels, numbers);
        key.workspace_limit = limit;
        for (const bool is_measured : {true, false}) {
          key.is_measured = is_measured;
          INFO(key.to_string() << " within " << limit << " bytes");
          const cuda::Convolution convolution(library.get(), cache, key);
          CHECK(convolution.workspace() <= limit);
        }
      }
    }
  }
}

TEST_CASE("a convolution of more elements than cuDNN supports is refused with the reason",
          "[wrappers]") {
  ConvolutionKey key = key_of(1 << 12, Numbers::kFloat32);
  key.n = 1 << 14;
  try {
    const cuda::ConvolutionShapes shapes(key);
    FAIL("it was taken");
  } catch (const std::invalid_argument& refusal) {
    const std::string text = refusal.what();
    CHECK(text.find("2^31 - 1 elements") != std::string::npos);
    CHECK(text.find("smaller batches") != std::string::npos);
  }
}
