// cuda::Convolution alone, on a device or the twin: which algorithms it takes.
#include "cuda/convolution.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

#ifdef TAUT_DEVICE_TWIN
#include "tests/twin/counts.hpp"
#endif

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

TEST_CASE("what a search has chosen is kept in a file for later processes", "[wrappers]") {
  const cuda::CudnnHandle library = cuda::make_cudnn();
  const auto folder =
      std::filesystem::temp_directory_path() / ("tautline-choices-" + std::to_string(getpid()));
  const auto file = folder / "choices.txt";
  ConvolutionKey key = key_of(8, Numbers::kTf32);
  key.workspace_limit = 1U << 20U;
  key.is_measured = true;
  const cuda::ConvolutionShapes shapes(key);
  const auto chosen = [&] {
    cuda::ConvolutionCache cache(file);
    return cache.find(library.get(), key, shapes);
  };
  const auto lines = [&] {
    std::ifstream read(file);
    return std::count(std::istreambuf_iterator<char>(read), std::istreambuf_iterator<char>(), '\n');
  };
  const cuda::ConvolutionChoices first = chosen();
  CHECK(lines() == 1);
  const cuda::ConvolutionChoices second = chosen();
  CHECK(lines() == 1);
  CHECK(second.forward.algorithm == first.forward.algorithm);
  CHECK(second.bottom.algorithm == first.bottom.algorithm);
  CHECK(second.weights.algorithm == first.weights.algorithm);
  CHECK(second.weights.workspace == first.weights.workspace);
#ifdef TAUT_DEVICE_TWIN
  const std::uint64_t searches = twin::calls_of("cudnnFindConvolutionForwardAlgorithm");
  (void)chosen();
  CHECK(twin::calls_of("cudnnFindConvolutionForwardAlgorithm") == searches);
#endif
  // What is no choice of cuDNN's, or no line of ours, is searched again.
  std::ifstream written(file);
  std::string damaged;
  for (int number = 0; number < 19; ++number) {
    std::string one;
    written >> one;
    damaged += one + " ";
  }
  std::ofstream(file) << "no numbers\n" << damaged << "77 0 77 0 77 0\n1 2 3\n";
  CHECK(chosen().forward.algorithm >= 0);
  CHECK(lines() == 4);
  std::filesystem::remove_all(folder);
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
