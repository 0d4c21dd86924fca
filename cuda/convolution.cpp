#include "cuda/convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "common/log.hpp"

namespace taut::cuda {
namespace {

int side(std::int64_t value) {
  return static_cast<int>(value);
}

void check_sides(const ConvolutionKey& key) {
  constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
  for (const std::int64_t value : {key.n, key.c, key.h, key.w, key.top_c, key.top_h, key.top_w}) {
    if (value < 1 || value > kMaxInt) {
      throw std::invalid_argument(
          fmt::format("{}: a side must be between 1 and 2^31 - 1", key.to_string()));
    }
  }
  const auto count = [](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return static_cast<double>(n) * static_cast<double>(c) * static_cast<double>(h) *
           static_cast<double>(w);
  };
  for (const double elements :
       {count(key.n, key.c, key.h, key.w), count(key.n, key.top_c, key.top_h, key.top_w)}) {
    if (elements <= static_cast<double>(kMaxInt)) continue;
    throw std::invalid_argument(fmt::format(
        "{}: cuDNN takes at most 2^31 - 1 elements of a bottom or top, this has {:.0f}; "
        "take smaller batches",
        key.to_string(), elements));
  }
}

cudnnDataType_t type_of(Numbers numbers) {
  switch (numbers) {
    case Numbers::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case Numbers::kFloat16:
      return CUDNN_DATA_HALF;
    case Numbers::kFloat32:
    case Numbers::kTf32:
      break;
  }
  return CUDNN_DATA_FLOAT;
}

/// What algorithms may do with the factors: float32 only multiplies them.
cudnnMathType_t math_of(Numbers numbers) {
  if (numbers == Numbers::kFloat32) return CUDNN_FMA_MATH;
  return numbers == Numbers::kTf32 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

ConvolutionDescriptor describe(const ConvolutionKey& key) {
  ConvolutionDescriptor descriptor = make_convolution_descriptor();
  check(cudnnSetConvolution2dDescriptor(descriptor.get(), side(key.pad_h), side(key.pad_w),
                                        side(key.stride_h), side(key.stride_w),
                                        side(key.dilation_h), side(key.dilation_w),
                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor", key.to_string());
  check(cudnnSetConvolutionGroupCount(descriptor.get(), side(key.group)),
        "cudnnSetConvolutionGroupCount", key.to_string());
  check(cudnnSetConvolutionMathType(descriptor.get(), math_of(key.numbers)),
        "cudnnSetConvolutionMathType", key.to_string());
  return descriptor;
}

/// The first usable one of cuDNN's answers, which are sorted by speed. A float32 convolution may
/// also use an algorithm that cuDNN lists with another math type: its descriptor then requests
/// float32. The workspace in an answer is for the answer's own math type, so `workspace_of` queries
/// it again.
template <class Algorithm, class Performance, class WorkspaceOf>
bool pick(std::span<const Performance> answers, const ConvolutionKey& key, std::size_t limit,
          const WorkspaceOf& workspace_of, Choice<Algorithm>& choice) {
  const bool is_exact = key.numbers == Numbers::kFloat32;
  for (const bool any_math : {false, true}) {
    for (const Performance& answer : answers) {
      if (answer.status != CUDNN_STATUS_SUCCESS) continue;
      if (key.deterministic && answer.determinism != CUDNN_DETERMINISTIC) continue;
      if (is_exact && !any_math && answer.mathType != CUDNN_FMA_MATH) continue;
      choice = {answer.algo, is_exact ? CUDNN_FMA_MATH : answer.mathType, 0};
      if (workspace_of(choice) == CUDNN_STATUS_SUCCESS && choice.workspace <= limit) return true;
    }
  }
  return false;
}

/// Searches one direction. `measure` and `expect` fill the answers and return their count, or the
/// status of a failure; workspace_of fills in a choice's workspace, or returns why there is none.
template <class Algorithm, class Performance, class Measure, class Expect, class WorkspaceOf>
Choice<Algorithm> search(const ConvolutionKey& key, const ConvolutionDescriptor& descriptor,
                         const char* direction, const Measure& measure, const Expect& expect,
                         const WorkspaceOf& workspace_of) {
  std::array<Performance, 16> answers{};
  Choice<Algorithm> choice;
  int count = 0;
  const auto usable = [&] {
    return pick(std::span<const Performance>(answers.data(), static_cast<std::size_t>(count)), key,
                key.workspace_limit, workspace_of, choice);
  };
  const int most = static_cast<int>(answers.size());
  // A measurement that runs out of memory is not a failure of the convolution.
  if (key.is_measured && measure(most, &count, answers.data()) == CUDNN_STATUS_SUCCESS &&
      usable()) {
    choice.is_measured = true;
    return choice;
  }
  count = 0;
  // Candidates that did not fit have left their math type in the descriptor.
  check(cudnnSetConvolutionMathType(descriptor.get(), math_of(key.numbers)),
        "cudnnSetConvolutionMathType", key.to_string());
  check(expect(most, &count, answers.data()), direction, key.to_string());
  if (!usable()) {
    fail(direction, key.to_string(),
         fmt::format("no{} algorithm within {} bytes of workspace",
                     key.deterministic ? " deterministic" : "", key.workspace_limit));
  }
  return choice;
}

/// A choice's workspace under its own math type, which its descriptor stores.
cudnnStatus_t workspace_of(cudnnHandle_t library, const ConvolutionShapes& shapes,
                           Choice<cudnnConvolutionFwdAlgo_t>& choice) {
  const cudnnStatus_t status = cudnnSetConvolutionMathType(shapes.forward.get(), choice.math);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnGetConvolutionForwardWorkspaceSize(library, shapes.bottom.get(), shapes.weights.get(),
                                                 shapes.forward.get(), shapes.top.get(),
                                                 choice.algorithm, &choice.workspace);
}
cudnnStatus_t workspace_of(cudnnHandle_t library, const ConvolutionShapes& shapes,
                           Choice<cudnnConvolutionBwdDataAlgo_t>& choice) {
  const cudnnStatus_t status = cudnnSetConvolutionMathType(shapes.to_bottom.get(), choice.math);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnGetConvolutionBackwardDataWorkspaceSize(
      library, shapes.weights.get(), shapes.top.get(), shapes.to_bottom.get(), shapes.bottom.get(),
      choice.algorithm, &choice.workspace);
}
cudnnStatus_t workspace_of(cudnnHandle_t library, const ConvolutionShapes& shapes,
                           Choice<cudnnConvolutionBwdFilterAlgo_t>& choice) {
  const cudnnStatus_t status = cudnnSetConvolutionMathType(shapes.to_weights.get(), choice.math);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnGetConvolutionBackwardFilterWorkspaceSize(
      library, shapes.bottom.get(), shapes.top.get(), shapes.to_weights.get(), shapes.weights.get(),
      choice.algorithm, &choice.workspace);
}

Choice<cudnnConvolutionBwdFilterAlgo_t> search_weights(cudnnHandle_t library,
                                                       const ConvolutionKey& key,
                                                       const ConvolutionShapes& shapes) {
  return search<cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterAlgoPerf_t>(
      key, shapes.to_weights, "backward to the weights",
      [&](int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* answers) {
        return cudnnFindConvolutionBackwardFilterAlgorithm(
            library, shapes.bottom.get(), shapes.top.get(), shapes.to_weights.get(),
            shapes.weights.get(), most, count, answers);
      },
      [&](int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* answers) {
        return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            library, shapes.bottom.get(), shapes.top.get(), shapes.to_weights.get(),
            shapes.weights.get(), most, count, answers);
      },
      [&](auto& choice) { return workspace_of(library, shapes, choice); });
}

ConvolutionChoices search_all(cudnnHandle_t library, const ConvolutionKey& key,
                              const ConvolutionShapes& shapes) {
  ConvolutionChoices choices;
  choices.forward = search<cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdAlgoPerf_t>(
      key, shapes.forward, "forward",
      [&](int most, int* count, cudnnConvolutionFwdAlgoPerf_t* answers) {
        return cudnnFindConvolutionForwardAlgorithm(library, shapes.bottom.get(),
                                                    shapes.weights.get(), shapes.forward.get(),
                                                    shapes.top.get(), most, count, answers);
      },
      [&](int most, int* count, cudnnConvolutionFwdAlgoPerf_t* answers) {
        return cudnnGetConvolutionForwardAlgorithm_v7(library, shapes.bottom.get(),
                                                      shapes.weights.get(), shapes.forward.get(),
                                                      shapes.top.get(), most, count, answers);
      },
      [&](auto& choice) { return workspace_of(library, shapes, choice); });
  choices.weights = search_weights(library, key, shapes);
  if (!key.to_bottom) return choices;
  choices.bottom = search<cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t>(
      key, shapes.to_bottom, "backward to the bottom",
      [&](int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* answers) {
        return cudnnFindConvolutionBackwardDataAlgorithm(library, shapes.weights.get(),
                                                         shapes.top.get(), shapes.to_bottom.get(),
                                                         shapes.bottom.get(), most, count, answers);
      },
      [&](int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* answers) {
        return cudnnGetConvolutionBackwardDataAlgorithm_v7(
            library, shapes.weights.get(), shapes.top.get(), shapes.to_bottom.get(),
            shapes.bottom.get(), most, count, answers);
      },
      [&](auto& choice) { return workspace_of(library, shapes, choice); });
  return choices;
}

constexpr float kOne = 1;
constexpr float kZero = 0;

}  // namespace

ConvolutionShapes::ConvolutionShapes(const ConvolutionKey& key) {
  check_sides(key);
  const cudnnDataType_t type = type_of(key.numbers);
  bottom = make_tensor_descriptor();
  top = make_tensor_descriptor();
  weights = make_filter_descriptor();
  check(cudnnSetTensor4dDescriptor(bottom.get(), CUDNN_TENSOR_NCHW, type, side(key.n), side(key.c),
                                   side(key.h), side(key.w)),
        "cudnnSetTensor4dDescriptor", key.to_string());
  check(cudnnSetTensor4dDescriptor(top.get(), CUDNN_TENSOR_NCHW, type, side(key.n), side(key.top_c),
                                   side(key.top_h), side(key.top_w)),
        "cudnnSetTensor4dDescriptor", key.to_string());
  check(cudnnSetFilter4dDescriptor(weights.get(), type, CUDNN_TENSOR_NCHW, side(key.top_c),
                                   side(key.c / key.group), side(key.kernel_h), side(key.kernel_w)),
        "cudnnSetFilter4dDescriptor", key.to_string());
  forward = describe(key);
  to_bottom = describe(key);
  to_weights = describe(key);
}

namespace {

// Limit on the file: a larger one is taken not to be Tautline's.
constexpr std::uintmax_t kMaxFileBytes = 16U << 20U;

/// A line's numbers, in one order for reading and writing.
template <class Visit>
void visit_key(ConvolutionKey& key, const Visit& visit) {
  for (std::int64_t* const side :
       {&key.n, &key.c, &key.h, &key.w, &key.top_c, &key.top_h, &key.top_w, &key.kernel_h,
        &key.kernel_w, &key.stride_h, &key.stride_w, &key.pad_h, &key.pad_w, &key.dilation_h,
        &key.dilation_w, &key.group}) {
    visit(*side);
  }
  const auto as_number = [&](auto& field) {
    auto number = static_cast<std::int64_t>(field);
    visit(number);
    field = static_cast<std::remove_reference_t<decltype(field)>>(number);
  };
  as_number(key.numbers);
  as_number(key.to_bottom);
  as_number(key.workspace_limit);
}

/// Whether all of them are cuDNN's algorithms: another number must not become an enumerator.
template <class Visit>
[[nodiscard]] bool visit_choices(ConvolutionChoices& choices, const Visit& visit) {
  bool are_known = true;
  const auto one = [&](auto& choice, std::int64_t algorithms) {
    auto algorithm = static_cast<std::int64_t>(choice.algorithm);
    auto math = static_cast<std::int64_t>(choice.math);
    visit(algorithm);
    visit(math);
    if (algorithm < 0 || algorithm >= algorithms || math < 0 || math > CUDNN_FMA_MATH) {
      are_known = false;
      return;
    }
    choice.algorithm = static_cast<std::remove_reference_t<decltype(choice.algorithm)>>(algorithm);
    choice.math = static_cast<cudnnMathType_t>(math);
  };
  one(choices.forward, CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
  one(choices.bottom, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
  one(choices.weights, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
  return are_known;
}

/// Whether cuDNN accepts the choices; fills in their workspaces.
bool is_usable(cudnnHandle_t library, const ConvolutionKey& key, const ConvolutionShapes& shapes,
               ConvolutionChoices& choices) {
  const auto fits = [&](auto& choice) {
    return workspace_of(library, shapes, choice) == CUDNN_STATUS_SUCCESS &&
           choice.workspace <= key.workspace_limit;
  };
  return fits(choices.forward) && fits(choices.weights) && (!key.to_bottom || fits(choices.bottom));
}

}  // namespace

void ConvolutionCache::read() {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(file_, failed);
  if (failed || bytes > kMaxFileBytes) return;
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    ConvolutionKey key;
    ConvolutionChoices choices;
    const auto next = [&](std::int64_t& number) { numbers >> number; };
    visit_key(key, next);
    const bool are_known = visit_choices(choices, next);
    std::string rest;
    if (!are_known || numbers.fail() || numbers >> rest) continue;
    key.is_measured = true;
    kept_[key] = choices;
  }
}

void ConvolutionCache::write(const ConvolutionKey& key, const ConvolutionChoices& choices) const {
  std::string line;
  const auto append = [&](std::int64_t number) { line += fmt::format("{} ", number); };
  ConvolutionKey written_key = key;
  ConvolutionChoices written = choices;
  visit_key(written_key, append);
  (void)visit_choices(written, append);
  line.back() = '\n';
  std::error_code failed;
  std::filesystem::create_directories(file_.parent_path(), failed);
  // Each line is one write at the end of the file, so that lines of several processes do not mix.
  std::ofstream file(file_, std::ios::app);
  file << line << std::flush;
  if (!file) log::debug("{}: the choice of convolutions is not kept", file_.string());
}

const ConvolutionChoices& ConvolutionCache::find(cudnnHandle_t library, const ConvolutionKey& key,
                                                 const ConvolutionShapes& shapes) {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  const bool is_kept = key.is_measured && !key.deterministic && !file_.empty();
  if (is_kept && !std::exchange(was_read_, true)) read();
  const auto kept = kept_.find(key);
  if (is_kept && kept != kept_.end() && is_usable(library, key, shapes, kept->second)) {
    return known_.emplace(key, kept->second).first->second;
  }
  const ConvolutionChoices& found =
      known_.emplace(key, search_all(library, key, shapes)).first->second;
  const bool is_measured = found.forward.is_measured && found.weights.is_measured &&
                           (found.bottom.is_measured || !key.to_bottom);
  if (is_kept && is_measured) write(key, found);
  return found;
}

Convolution::Convolution(cudnnHandle_t library, ConvolutionCache& cache, const ConvolutionKey& key)
    : key_(key),
      about_(key.to_string()),
      shapes_(key),
      choices_(cache.find(library, key, shapes_)) {
  // Whether the choice is new or known: this convolution's descriptors must still be set.
  check(workspace_of(library, shapes_, choices_.forward), "cudnnGetConvolutionForwardWorkspaceSize",
        about_);
  check(workspace_of(library, shapes_, choices_.weights),
        "cudnnGetConvolutionBackwardFilterWorkspaceSize", about_);
  if (!key.to_bottom) return;
  check(workspace_of(library, shapes_, choices_.bottom),
        "cudnnGetConvolutionBackwardDataWorkspaceSize", about_);
}

std::size_t Convolution::workspace() const {
  return std::max(
      {choices_.forward.workspace, choices_.bottom.workspace, choices_.weights.workspace});
}

void Convolution::forward(cudnnHandle_t library, const void* bottom, const void* weights, void* top,
                          void* workspace) {
  check(
      cudnnConvolutionForward(library, &kOne, shapes_.bottom.get(), bottom, shapes_.weights.get(),
                              weights, shapes_.forward.get(), choices_.forward.algorithm, workspace,
                              choices_.forward.workspace, &kZero, shapes_.top.get(), top),
      "cudnnConvolutionForward", about_);
}

void Convolution::backward_bottom(cudnnHandle_t library, const void* top_gradient,
                                  const void* weights, void* bottom_gradient, void* workspace) {
  check(cudnnConvolutionBackwardData(
            library, &kOne, shapes_.weights.get(), weights, shapes_.top.get(), top_gradient,
            shapes_.to_bottom.get(), choices_.bottom.algorithm, workspace,
            choices_.bottom.workspace, &kZero, shapes_.bottom.get(), bottom_gradient),
        "cudnnConvolutionBackwardData", about_);
}

void Convolution::backward_weights(cudnnHandle_t library, const void* bottom,
                                   const void* top_gradient, void* weights_gradient,
                                   void* workspace) {
  check(cudnnConvolutionBackwardFilter(
            library, &kOne, shapes_.bottom.get(), bottom, shapes_.top.get(), top_gradient,
            shapes_.to_weights.get(), choices_.weights.algorithm, workspace,
            choices_.weights.workspace, &kZero, shapes_.weights.get(), weights_gradient),
        "cudnnConvolutionBackwardFilter", about_);
}

}  // namespace taut::cuda
