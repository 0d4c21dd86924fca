#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/twin/libraries/cublaslt/cublaslt_state.hpp"
#include "tests/twin/libraries/library_work.hpp"

namespace taut::twin::cublas {
namespace {

/// What an algorithm demands of an address it demands of the strides between columns and matrices,
/// too.
bool keeps_alignment(const Layout& layout, std::uint64_t alignment) {
  const std::uint64_t size = size_of(format_of(layout.type));
  return static_cast<std::uint64_t>(layout.stride) * size % alignment == 0 &&
         (layout.batch == 1 ||
          static_cast<std::uint64_t>(layout.batch_offset) * size % alignment == 0);
}

/// One algorithm: how it reads, how it sums, and what it demands for that.
struct Kind {
  std::uint16_t alignment;       // of A and B; of C and D the same
  std::uint16_t bias_alignment;  // where a product has one
  std::uint8_t splits;
  cublasLtReductionScheme_t reduction;
};
constexpr Kind kKinds[] = {
    {16, 32, 1, CUBLASLT_REDUCTION_SCHEME_NONE},
    {16, 16, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
    {16, 16, 3, CUBLASLT_REDUCTION_SCHEME_INPLACE},
    {16, 16, 1, CUBLASLT_REDUCTION_SCHEME_NONE},
    {8, 16, 1, CUBLASLT_REDUCTION_SCHEME_NONE},
    {4, 16, 2, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE},
    {4, 16, 1, CUBLASLT_REDUCTION_SCHEME_NONE},
    {2, 4, 1, CUBLASLT_REDUCTION_SCHEME_NONE},
};

/// Whether the heuristic may answer with it.
bool is_offered(const Kind& kind, const Problem& problem, const Preference& preference) {
  if (kind.reduction != CUBLASLT_REDUCTION_SCHEME_NONE &&
      (preference.reductions & static_cast<unsigned>(kind.reduction)) == 0) {
    return false;
  }
  const Layout* const layouts[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (std::size_t i = 0; i < 4; ++i) {
    if (kind.alignment > preference.alignments[i]) return false;
    if (!keeps_alignment(*layouts[i], kind.alignment)) return false;
  }
  const bool has_bias = (problem.product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  // A bias that is not named yet is taken for one that is at any multiple: address 0.
  if (has_bias && kind.bias_alignment > alignment_of(problem.product.bias)) return false;
  return kind.splits <= problem.k();
}

Algorithm make_algorithm(const Kind& kind, const Problem& problem) {
  Algorithm algorithm;
  algorithm.magic = Algorithm::kMagic;
  algorithm.number = static_cast<std::uint16_t>(&kind - kKinds);
  algorithm.splits = kind.splits;
  algorithm.reduction = static_cast<std::uint8_t>(kind.reduction);
  algorithm.alignments.fill(kind.alignment);
  algorithm.bias_alignment = kind.bias_alignment;
  algorithm.epilogue = static_cast<std::uint16_t>(problem.product.epilogue);
  algorithm.compute = static_cast<std::uint8_t>(problem.product.compute);
  algorithm.type = static_cast<std::uint8_t>(problem.a.type);
  algorithm.out_type = static_cast<std::uint8_t>(problem.d.type);
  algorithm.is_batched = problem.d.batch > 1 ? 1 : 0;
  algorithm.shape = problem.shape();
  const std::uint64_t partial =
      problem.m() * problem.n() * static_cast<std::uint64_t>(problem.d.batch) * sizeof(float);
  if (kind.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE) algorithm.workspace = 4096;
  if (kind.reduction > CUBLASLT_REDUCTION_SCHEME_INPLACE) {
    algorithm.workspace = partial * kind.splits;
  }
  return algorithm;
}

}  // namespace

Algorithm algorithm_for(std::uint16_t number, const Problem& problem) {
  return make_algorithm(kKinds[number % std::size(kKinds)], problem);
}

std::uint64_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return bits & (~bits + 1);
}

std::string about(const Problem& problem) {
  return fmt::format("{}x{}x{}{}", problem.m(), problem.n(), problem.k(),
                     problem.d.batch == 1 ? "" : fmt::format(", {} times", problem.d.batch));
}

cublasStatus_t entry_status(const char* call, const Handle* handle) {
  switch (next_fault(call).kind) {
    case Fault::kNone:
      break;
    case Fault::kRefused:
      return CUBLAS_STATUS_INTERNAL_ERROR;
    case Fault::kOutOfMemory:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case Fault::kDeviceLost:
      fail_device(current_device(), cudaErrorIllegalAddress);
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (device_status(handle->device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  return CUBLAS_STATUS_SUCCESS;
}

Problem problem_of(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {*reinterpret_cast<const Product*>(product), *reinterpret_cast<const Layout*>(a),
          *reinterpret_cast<const Layout*>(b), *reinterpret_cast<const Layout*>(c),
          *reinterpret_cast<const Layout*>(d)};
}

}  // namespace taut::twin::cublas

using namespace taut::twin;
using namespace taut::twin::cublas;

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t library,
                                              cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferences, int count,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  const auto* const handle = reinterpret_cast<const Handle*>(library);
  const cublasStatus_t status = entry_status("cublasLtMatmulAlgoGetHeuristic", handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (count <= 0 || product == nullptr || a == nullptr || b == nullptr || c == nullptr ||
      d == nullptr || preferences == nullptr || results == nullptr || found == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Problem problem = problem_of(product, a, b, c, d);
  *found = 0;
  const cublasStatus_t checked = problem.check();
  if (checked != CUBLAS_STATUS_SUCCESS) return checked;
  const Preference& preference = *reinterpret_cast<const Preference*>(preferences);
  std::vector<Algorithm> offered;
  for (const Kind& kind : kKinds) {
    if (!is_offered(kind, problem, preference)) continue;
    const Algorithm algorithm = make_algorithm(kind, problem);
    if (algorithm.workspace <= preference.workspace) offered.push_back(algorithm);
  }
  // Which of them is expected to be fastest the seed says; mostly one that reads wide. The same
  // question has the same answer.
  const std::string question =
      fmt::format("cublasLtMatmulAlgoGetHeuristic {} of {}", problem.shape(), offered.size());
  if (offered.size() > 1 && chosen_number(question, 3) == 0) {
    const auto first = chosen_number(question + ", which", offered.size());
    std::rotate(offered.begin(), offered.begin() + static_cast<std::ptrdiff_t>(first),
                offered.end());
  }
  for (const Algorithm& algorithm : offered) {
    if (*found == count) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
}
