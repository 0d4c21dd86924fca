// The twin's cuDNN convolutions: what they compute, which algorithms there are, and what they
// object to.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/libraries/cudnn/convolution_algorithms.hpp"
#include "tests/twin/libraries/device_values.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"

using namespace taut::twin;
using namespace taut::twin::test;
using dnn::ConvolutionShape;
using dnn::Direction;

namespace {

ConvolutionShape shape_of(int n, int c, int side, int top_c, int kernel, int pad, int stride,
                          int dilation = 1, int groups = 1) {
  const int top = (side + 2 * pad - ((kernel - 1) * dilation + 1)) / stride + 1;
  return {n,      c,   side, side,   top_c,  top,      top,      kernel,
          kernel, pad, pad,  stride, stride, dilation, dilation, groups};
}

cudnnDataType_t type_of(Format format) {
  return format == Format::kFloat16    ? CUDNN_DATA_HALF
         : format == Format::kBfloat16 ? CUDNN_DATA_BFLOAT16
                                       : CUDNN_DATA_FLOAT;
}

constexpr cudnnStatus_t kFine = CUDNN_STATUS_SUCCESS;

struct Convolution {
  Convolution(const ConvolutionShape& of, Format format, cudnnMathType_t math) : shape(of) {
    REQUIRE(cudnnCreate(&library) == kFine);
    REQUIRE(cudnnCreateTensorDescriptor(&bottom) == kFine);
    REQUIRE(cudnnCreateTensorDescriptor(&top) == kFine);
    REQUIRE(cudnnCreateFilterDescriptor(&weights) == kFine);
    REQUIRE(cudnnCreateConvolutionDescriptor(&convolution) == kFine);
    const cudnnDataType_t type = type_of(format);
    REQUIRE(cudnnSetTensor4dDescriptor(bottom, CUDNN_TENSOR_NCHW, type, of.n, of.c, of.h, of.w) ==
            kFine);
    REQUIRE(cudnnSetTensor4dDescriptor(top, CUDNN_TENSOR_NCHW, type, of.n, of.top_c, of.top_h,
                                       of.top_w) == kFine);
    REQUIRE(cudnnSetFilter4dDescriptor(weights, type, CUDNN_TENSOR_NCHW, of.top_c, of.c / of.groups,
                                       of.kernel_h, of.kernel_w) == kFine);
    REQUIRE(cudnnSetConvolution2dDescriptor(convolution, of.pad_h, of.pad_w, of.stride_h,
                                            of.stride_w, of.dilation_h, of.dilation_w,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == kFine);
    REQUIRE(cudnnSetConvolutionGroupCount(convolution, of.groups) == kFine);
    REQUIRE(cudnnSetConvolutionMathType(convolution, math) == kFine);
  }
  ~Convolution() {
    cudnnDestroyConvolutionDescriptor(convolution);
    cudnnDestroyFilterDescriptor(weights);
    cudnnDestroyTensorDescriptor(top);
    cudnnDestroyTensorDescriptor(bottom);
    cudnnDestroy(library);
  }
  cudnnStatus_t forward(cudnnConvolutionFwdAlgo_t algorithm, const void* x, const void* w, void* y,
                        void* workspace, std::size_t bytes, float beta = 0) const {
    const float one = 1;
    return cudnnConvolutionForward(library, &one, bottom, x, weights, w, convolution, algorithm,
                                   workspace, bytes, &beta, top, y);
  }
  std::size_t forward_workspace(cudnnConvolutionFwdAlgo_t algorithm) const {
    std::size_t bytes = 0;
    const auto status = cudnnGetConvolutionForwardWorkspaceSize(
        library, bottom, weights, convolution, top, algorithm, &bytes);
    return status == kFine ? bytes : SIZE_MAX;
  }

  ConvolutionShape shape;
  cudnnHandle_t library = nullptr;
  cudnnTensorDescriptor_t bottom = nullptr, top = nullptr;
  cudnnFilterDescriptor_t weights = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
};

/// Calls visit(top place, bottom place, weight place) for each product of a convolution.
template <class Visit>
void visit_products(const ConvolutionShape& s, const Visit& visit) {
  const int channels = s.c / s.groups;
  const auto at = [](std::initializer_list<std::array<int, 2>> parts) {
    std::size_t place = 0;
    for (const auto& [index, extent] : parts) {
      place = place * static_cast<std::size_t>(extent) + static_cast<std::size_t>(index);
    }
    return place;
  };
  for (int n = 0; n < s.n; ++n) {
    for (int k = 0; k < s.top_c; ++k) {
      const int group = k / (s.top_c / s.groups);
      for (int i = 0; i < s.top_h; ++i) {
        for (int j = 0; j < s.top_w; ++j) {
          for (int c = 0; c < channels; ++c) {
            for (int r = 0; r < s.kernel_h; ++r) {
              for (int q = 0; q < s.kernel_w; ++q) {
                const int y = i * s.stride_h - s.pad_h + r * s.dilation_h;
                const int x = j * s.stride_w - s.pad_w + q * s.dilation_w;
                if (y < 0 || x < 0 || y >= s.h || x >= s.w) continue;
                visit(at({{n, s.n}, {k, s.top_c}, {i, s.top_h}, {j, s.top_w}}),
                      at({{n, s.n}, {group * channels + c, s.c}, {y, s.h}, {x, s.w}}),
                      at({{k, s.top_c}, {c, channels}, {r, s.kernel_h}, {q, s.kernel_w}}));
              }
            }
          }
        }
      }
    }
  }
}

Values rounded(Format format, Values values) {
  for (float& value : values) value = round_to(format, value);
  return values;
}

struct Numbers {
  Format stored;
  cudnnMathType_t math;
  Format factor;
  double tolerance;
};
constexpr Numbers kNumbers[] = {
    {Format::kFloat32, CUDNN_FMA_MATH, Format::kFloat32, 1e-6},
    {Format::kFloat32, CUDNN_DEFAULT_MATH, Format::kTf32, 1e-6},
    {Format::kBfloat16, CUDNN_TENSOR_OP_MATH, Format::kBfloat16, 0x1p-8},
    {Format::kFloat16, CUDNN_TENSOR_OP_MATH, Format::kFloat16, 0x1p-11},
};
const ConvolutionShape kShapes[] = {
    shape_of(2, 3, 8, 4, 3, 1, 1),       shape_of(1, 4, 9, 6, 5, 0, 2),
    shape_of(3, 4, 7, 6, 3, 2, 1, 2, 2), shape_of(2, 2, 5, 2, 1, 0, 1),
    shape_of(1, 6, 8, 6, 3, 1, 2, 1, 6),
};

}  // namespace

TEST_CASE("cuDNN convolutions of each direction are those of plain loops", "[twin][cudnn]") {
  for (const Numbers& numbers : kNumbers) {
    for (const ConvolutionShape& shape : kShapes) {
      const Convolution conv(shape, numbers.stored, numbers.math);
      const Values x = rounded(numbers.factor, some_values(shape.bottom_count(), 1));
      const Values w = rounded(numbers.factor, some_values(shape.weight_count(), 2));
      const Values dy = rounded(numbers.factor, some_values(shape.top_count(), 3));
      std::vector<double> y(shape.top_count()), dx(x.size()), dw(w.size());
      visit_products(shape, [&](std::size_t top, std::size_t bottom, std::size_t weight) {
        y[top] += static_cast<double>(x[bottom]) * w[weight];
        dx[bottom] += static_cast<double>(dy[top]) * w[weight];
        dw[weight] += static_cast<double>(dy[top]) * x[bottom];
      });
      const DeviceValues x_at(x, numbers.stored), w_at(w, numbers.stored),
          dy_at(dy, numbers.stored);
      const DeviceValues y_at(Values(y.size(), NAN), numbers.stored);
      const DeviceValues dx_at(Values(x.size(), NAN), numbers.stored);
      const DeviceValues dw_at(Values(w.size(), NAN), numbers.stored);
      const DeviceValues workspace(1 << 16);
      const float one = 1, zero = 0;
      std::size_t bytes = 0;
      REQUIRE(conv.forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, x_at.get(), w_at.get(),
                           y_at.get(), nullptr, 0) == kFine);
      CHECK(difference(y_at.read(), y) < numbers.tolerance);
      REQUIRE(cudnnGetConvolutionBackwardDataWorkspaceSize(
                  conv.library, conv.weights, conv.top, conv.convolution, conv.bottom,
                  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes) == kFine);
      REQUIRE(cudnnConvolutionBackwardData(conv.library, &one, conv.weights, w_at.get(), conv.top,
                                           dy_at.get(), conv.convolution,
                                           CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace.get(),
                                           bytes, &zero, conv.bottom, dx_at.get()) == kFine);
      CHECK(difference(dx_at.read(), dx) < numbers.tolerance);
      REQUIRE(cudnnConvolutionBackwardFilter(
                  conv.library, &one, conv.bottom, x_at.get(), conv.top, dy_at.get(),
                  conv.convolution, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace.get(),
                  workspace.bytes(), &zero, conv.weights, dw_at.get()) == kFine);
      CHECK(difference(dw_at.read(), dw) < numbers.tolerance);
    }
  }
}

TEST_CASE("cuDNN adds to the output where beta is not 0", "[twin][cudnn]") {
  const Convolution conv(shape_of(1, 1, 3, 1, 1, 0, 1), Format::kFloat32, CUDNN_FMA_MATH);
  const DeviceValues x(Values(9, 2.0F)), w(Values(1, 3.0F)), y(Values(9, 10.0F));
  REQUIRE(conv.forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, x.get(), w.get(), y.get(), nullptr,
                       0, 0.5F) == kFine);
  CHECK(y.read() == Values(9, 11.0F));
}

TEST_CASE("float16 gradients of weights overflow where the sum is larger than 65504",
          "[twin][cudnn]") {
  // 16 images of 256 x 256 ones under a 1 x 1 kernel: each weight's gradient is 2^20 / 16.
  const Convolution conv(shape_of(16, 1, 256, 1, 1, 0, 1), Format::kFloat16, CUDNN_TENSOR_OP_MATH);
  const std::size_t count = conv.shape.bottom_count();
  const DeviceValues x(Values(count, 1.0F), Format::kFloat16);
  const DeviceValues dy(Values(count, 0.0625F), Format::kFloat16);
  const DeviceValues dw(1, Format::kFloat16);
  const float one = 1, zero = 0;
  REQUIRE(cudnnConvolutionBackwardFilter(conv.library, &one, conv.bottom, x.get(), conv.top,
                                         dy.get(), conv.convolution,
                                         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, nullptr, 0, &zero,
                                         conv.weights, dw.get()) == kFine);
  CHECK(std::isinf(dw.read()[0]));
}

TEST_CASE("the support tables have each algorithm where the documentation has it",
          "[twin][cudnn]") {
  const auto listed = [](Direction direction, int number, const ConvolutionShape& shape,
                         Format stored = Format::kFloat32) {
    return dnn::is_listed({direction, number, CUDNN_DEFAULT_MATH}, shape, stored);
  };
  const ConvolutionShape dense = shape_of(1, 2, 8, 2, 3, 1, 1);
  const ConvolutionShape strided = shape_of(1, 2, 8, 2, 3, 1, 2);
  const ConvolutionShape dilated = shape_of(1, 2, 8, 2, 3, 1, 1, 2);
  const ConvolutionShape seven = shape_of(1, 2, 9, 2, 7, 1, 1);
  const ConvolutionShape large = shape_of(1, 1, 256, 1, 3, 1, 1);
  const ConvolutionShape padded = shape_of(1, 1, 8, 1, 3, 3, 1);
  CHECK(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, dense));
  CHECK_FALSE(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, strided));
  CHECK_FALSE(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, seven));
  CHECK_FALSE(
      listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, dense, Format::kBfloat16));
  CHECK_FALSE(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, dense));
  CHECK(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_FFT, dense));
  CHECK_FALSE(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_FFT, large));
  CHECK_FALSE(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_FFT, padded));
  CHECK_FALSE(
      listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, dilated));
  CHECK(listed(Direction::kForward, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, dilated));
  CHECK_FALSE(listed(Direction::kWeights, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD, dense));
  CHECK_FALSE(listed(Direction::kWeights, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
                     shape_of(1, 1, 8, 1, 3, 1, 1), Format::kFloat16));
}

TEST_CASE("cudnnFind answers in the order of time, unsupported algorithms last", "[twin][cudnn]") {
  for (const ConvolutionShape& shape : kShapes) {
    const Convolution conv(shape, Format::kFloat32, CUDNN_DEFAULT_MATH);
    std::array<cudnnConvolutionFwdAlgoPerf_t, 32> found{};
    int count = 0;
    REQUIRE(cudnnFindConvolutionForwardAlgorithm(conv.library, conv.bottom, conv.weights,
                                                 conv.convolution, conv.top, 32, &count,
                                                 found.data()) == kFine);
    CHECK(count == 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
    float before = 0;
    bool all_run = true;
    for (const auto& answer : std::span(found).first(static_cast<std::size_t>(count))) {
      if (answer.status != kFine) {
        all_run = false;
        continue;
      }
      CHECK(all_run);
      CHECK(answer.time >= before);
      before = answer.time;
      // What is answered is what is told when it is requested by its way to multiply.
      REQUIRE(cudnnSetConvolutionMathType(conv.convolution, answer.mathType) == kFine);
      CHECK(conv.forward_workspace(answer.algo) == answer.memory);
    }
    CHECK_FALSE(all_run);
  }
}

TEST_CASE("cuDNN refuses a workspace that is smaller than the algorithm needs", "[twin][cudnn]") {
  const Convolution conv(shape_of(2, 3, 8, 4, 3, 1, 1), Format::kFloat32, CUDNN_DEFAULT_MATH);
  const DeviceValues x(conv.shape.bottom_count()), w(conv.shape.weight_count()),
      y(conv.shape.top_count()), workspace(1 << 16);
  int refused = 0;
  for (int i = 0; i < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; ++i) {
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(i);
    const std::size_t bytes = conv.forward_workspace(algorithm);
    if (bytes == SIZE_MAX) {
      CHECK(conv.forward(algorithm, x.get(), w.get(), y.get(), workspace.get(),
                         workspace.bytes()) == CUDNN_STATUS_NOT_SUPPORTED);
      continue;
    }
    if (bytes == 0) continue;
    const auto status =
        conv.forward(algorithm, x.get(), w.get(), y.get(), workspace.get(), bytes - 1);
    CHECK(CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_BAD_PARAM);
    ++refused;
  }
  CHECK(refused > 0);
}

TEST_CASE("cuDNN refuses a top of another shape than the convolution's", "[twin][cudnn]") {
  const Convolution conv(shape_of(2, 3, 8, 4, 3, 1, 1), Format::kFloat32, CUDNN_DEFAULT_MATH);
  REQUIRE(cudnnSetTensor4dDescriptor(conv.top, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 8, 7) ==
          kFine);
  CHECK(conv.forward_workspace(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) == SIZE_MAX);
  REQUIRE(cudnnSetTensor4dDescriptor(conv.top, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 2, 4, 8, 8) ==
          kFine);
  CHECK(conv.forward_workspace(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) == SIZE_MAX);
}

TEST_CASE("cuDNN refuses tensors of 2^31 elements or more", "[twin][cudnn]") {
  const Convolution conv(shape_of(1, 1, 3, 1, 1, 0, 1), Format::kFloat32, CUDNN_FMA_MATH);
  CHECK(cudnnSetTensor4dDescriptor(conv.top, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1 << 16, 1 << 15,
                                   1, 1) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("descriptors are set before they are used", "[twin][cudnn]") {
  const Convolution conv(shape_of(1, 1, 3, 1, 1, 0, 1), Format::kFloat32, CUDNN_FMA_MATH);
  cudnnTensorDescriptor_t fresh = nullptr;
  REQUIRE(cudnnCreateTensorDescriptor(&fresh) == kFine);
  REQUIRE_BROKEN("cudnn.descriptor-set", {
    std::size_t bytes = 0;
    (void)cudnnGetConvolutionForwardWorkspaceSize(conv.library, conv.bottom, conv.weights,
                                                  conv.convolution, fresh,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes);
  });
  cudnnDestroyTensorDescriptor(fresh);
}

TEST_CASE("one thread at a time uses a handle of cuDNN", "[twin][cudnn]") {
  const Convolution conv(shape_of(2, 3, 8, 4, 3, 1, 1), Format::kFloat32, CUDNN_FMA_MATH);
  REQUIRE_BROKEN("cudnn.handle-thread", {
    const auto ask = [&] {
      for (int i = 0; i < 1000000; ++i) {
        (void)conv.forward_workspace(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
      }
    };
    std::thread other(ask);
    ask();
    other.join();
  });
}

TEST_CASE("algorithms that are not deterministic sum in an order of the seed", "[twin][cudnn]") {
  const Convolution conv(shape_of(4, 3, 12, 4, 3, 1, 1), Format::kFloat32, CUDNN_FMA_MATH);
  const DeviceValues x(some_values(conv.shape.bottom_count(), 1));
  const DeviceValues dy(some_values(conv.shape.top_count(), 2));
  const DeviceValues dw(conv.shape.weight_count()), workspace(1 << 18);
  const auto outcomes = [&](cudnnConvolutionBwdFilterAlgo_t algorithm) {
    std::set<Values> all;
    const float one = 1, zero = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      set_seed(seed);
      REQUIRE(cudnnConvolutionBackwardFilter(conv.library, &one, conv.bottom, x.get(), conv.top,
                                             dy.get(), conv.convolution, algorithm, workspace.get(),
                                             workspace.bytes(), &zero, conv.weights,
                                             dw.get()) == kFine);
      all.insert(dw.read());
    }
    return all.size();
  };
  CHECK(outcomes(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0) > 1);
  CHECK(outcomes(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) == 1);
}
