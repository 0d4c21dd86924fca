#include "tests/twin/libraries/cudnn/convolution_algorithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tests/twin/libraries/library_work.hpp"

namespace taut::twin::dnn {
namespace {

/// What the algorithms of all directions are variants of.
enum class Family { kGemm, kExplicitGemm, kFft, kFftTiling, kWinograd, kWinogradNonfused, kNone };

Family family_of(Direction direction, int number) {
  constexpr Family kForward[] = {
      Family::kGemm, Family::kGemm,      Family::kExplicitGemm, Family::kNone,
      Family::kFft,  Family::kFftTiling, Family::kWinograd,     Family::kWinogradNonfused};
  constexpr Family kBottom[] = {Family::kGemm,      Family::kGemm,     Family::kFft,
                                Family::kFftTiling, Family::kWinograd, Family::kWinogradNonfused};
  constexpr Family kWeights[] = {Family::kGemm,     Family::kGemm, Family::kFft,
                                 Family::kGemm,     Family::kNone, Family::kWinogradNonfused,
                                 Family::kFftTiling};
  if (number < 0 || number >= count_of(direction)) return Family::kNone;
  const auto index = static_cast<std::size_t>(number);
  if (direction == Direction::kForward) return kForward[index];
  return direction == Direction::kBottom ? kBottom[index] : kWeights[index];
}

bool is_undilated(const ConvolutionShape& shape) {
  return shape.dilation_h == 1 && shape.dilation_w == 1;
}
bool is_dense(const ConvolutionShape& shape) {
  return is_undilated(shape) && shape.stride_h == 1 && shape.stride_w == 1;
}
bool is_kernel(const ConvolutionShape& shape, int side) {
  return shape.kernel_h == side && shape.kernel_w == side;
}
bool covers_padding(const ConvolutionShape& shape) {
  return shape.kernel_h > shape.pad_h && shape.kernel_w > shape.pad_w;
}

/// What cuDNN rather has for dilated kernels: those that need no regular grid.
bool bears_dilation(Direction direction, int number) {
  if (direction == Direction::kForward) return number == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  return number <= 1;  // ALGO_0 and ALGO_1 of both ways back
}

bool is_tiled_fft(Direction direction, const ConvolutionShape& shape) {
  if (direction == Direction::kWeights && shape.top_h != 1 && shape.top_w != 1) return false;
  const int largest = std::max(shape.kernel_h, shape.kernel_w);
  const bool is_flat = shape.kernel_h == 1 || shape.kernel_w == 1;
  return largest <= (is_flat ? 256 : 32);
}

std::string key_of(const ConvolutionAlgorithm& algorithm, const ConvolutionShape& shape,
                   Format stored) {
  return fmt::format("{}, stride {}x{}, pad {}x{}, {}, {} {} {}", shape.to_string(), shape.stride_h,
                     shape.stride_w, shape.pad_h, shape.pad_w, name_of(stored),
                     static_cast<int>(algorithm.direction), algorithm.number,
                     static_cast<int>(algorithm.math));
}

bool always_stays(Direction direction, int number) {
  if (direction == Direction::kForward) return number == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  if (direction == Direction::kBottom) return number == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  return number == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
}

}  // namespace

int count_of(Direction direction) {
  if (direction == Direction::kForward) return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  return direction == Direction::kBottom
             ? static_cast<int>(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT)
             : static_cast<int>(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
}

bool is_deterministic(Direction direction, int number) {
  if (direction == Direction::kForward) return true;
  if (direction == Direction::kBottom) return number != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
  return number != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 &&
         number != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
}

bool is_listed(const ConvolutionAlgorithm& algorithm, const ConvolutionShape& shape,
               Format stored) {
  const bool is_bfloat16 = stored == Format::kBfloat16;
  const auto [direction, number, math] = algorithm;
  if (!is_undilated(shape) && !bears_dilation(direction, number)) return false;
  switch (family_of(direction, number)) {
    case Family::kGemm:
      // An odd number of float16 weights cannot be added to in pairs.
      return direction != Direction::kWeights || number != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 ||
             stored != Format::kFloat16 || shape.weight_count() % 2 == 0;
    case Family::kExplicitGemm:
      return true;
    case Family::kFft:
      return !is_bfloat16 && is_dense(shape) && covers_padding(shape) &&
             shape.h + 2 * shape.pad_h <= 256 && shape.w + 2 * shape.pad_w <= 256;
    case Family::kFftTiling:
      return !is_bfloat16 && is_dense(shape) && covers_padding(shape) &&
             is_tiled_fft(direction, shape);
    case Family::kWinograd:
      return !is_bfloat16 && is_dense(shape) && is_kernel(shape, 3);
    case Family::kWinogradNonfused:
      return is_dense(shape) && (is_kernel(shape, 3) || is_kernel(shape, 5));
    case Family::kNone:
      break;
  }
  return false;
}

bool is_supported(const ConvolutionAlgorithm& algorithm, const ConvolutionShape& shape,
                  Format stored) {
  if (!is_listed(algorithm, shape, stored)) return false;
  if (always_stays(algorithm.direction, algorithm.number)) return true;
  return chosen_number("supported " + key_of(algorithm, shape, stored), 4) != 0;
}

std::size_t workspace_of(const ConvolutionAlgorithm& algorithm, const ConvolutionShape& shape,
                         Format stored) {
  const std::size_t top = shape.top_count() * sizeof(float);
  const std::size_t bottom = shape.bottom_count() * sizeof(float);
  const std::size_t weights = shape.weight_count() * sizeof(float);
  std::size_t bytes = 0;
  switch (family_of(algorithm.direction, algorithm.number)) {
    case Family::kGemm:
      bytes = always_stays(algorithm.direction, algorithm.number) ? 0 : weights / 2 + 1024;
      break;
    case Family::kExplicitGemm:
      bytes = top / static_cast<std::size_t>(shape.top_c) * (weights / sizeof(float));
      break;
    case Family::kFft:
      bytes = 4 * (top + bottom) + 8 * weights;
      break;
    case Family::kFftTiling:
      bytes = 2 * (top + bottom) + 4 * weights;
      break;
    case Family::kWinograd:
      bytes = 2 * weights;
      break;
    case Family::kWinogradNonfused:
      bytes = 3 * (top + bottom) + 4 * weights;
      break;
    case Family::kNone:
      break;
  }
  // Plain multiplications and tensor cores tile differently; the least deterministic of sizes is
  // found.
  if (bytes > 0 && algorithm.math == CUDNN_FMA_MATH) {
    bytes += bytes / 2 * chosen_number("workspace " + key_of(algorithm, shape, stored), 4);
  }
  return (bytes + 15) / 16 * 16;
}

std::vector<Candidate> candidates_of(Direction direction, const ConvolutionShape& shape,
                                     Format stored, cudnnMathType_t math) {
  std::vector<cudnnMathType_t> types{math};
  // Without tensor cores there is one way; some versions name it as the default.
  if (math == CUDNN_FMA_MATH) {
    if (chosen_number("named " + shape.to_string(), 4) == 0) types = {CUDNN_DEFAULT_MATH};
  } else {
    types.push_back(CUDNN_FMA_MATH);
  }
  std::vector<Candidate> candidates;
  for (const cudnnMathType_t type : types) {
    for (int number = 0; number < count_of(direction); ++number) {
      const ConvolutionAlgorithm algorithm{direction, number, type};
      Candidate candidate{.number = number, .math = type};
      candidate.determinism =
          is_deterministic(direction, number) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
      if (is_supported(algorithm, shape, stored)) {
        candidate.memory = workspace_of(algorithm, shape, stored);
        candidate.time = 1.0F + static_cast<float>(chosen_number(
                                    "time " + key_of(algorithm, shape, stored), 1000));
      } else {
        candidate.status = CUDNN_STATUS_NOT_SUPPORTED;
      }
      candidates.push_back(candidate);
    }
  }
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    const bool a_fails = a.status != CUDNN_STATUS_SUCCESS;
    const bool b_fails = b.status != CUDNN_STATUS_SUCCESS;
    return a_fails != b_fails ? b_fails : a.time < b.time;
  });
  return candidates;
}

}  // namespace taut::twin::dnn
