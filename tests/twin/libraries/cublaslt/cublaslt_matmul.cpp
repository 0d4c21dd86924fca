#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/twin/libraries/cublaslt/cublaslt_state.hpp"
#include "tests/twin/libraries/library_work.hpp"

namespace taut::twin::cublas {
namespace {

/// How one product is computed when its turn comes.
struct Computation {
  Problem problem;
  Algorithm algorithm;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  const void* bias;
  float alpha;
  float beta;
  std::vector<std::uint32_t> order;  // in which split sums are added

  void run() const {
    for (std::int32_t i = 0; i < problem.d.batch; ++i) run_one(i);
  }

 private:
  static std::size_t first_of(const Layout& layout, std::int32_t index) {
    return static_cast<std::size_t>(layout.batch_offset) * static_cast<std::size_t>(index);
  }
  /// A matrix row by row: rows are its columns as stored, transposed where that is requested.
  [[nodiscard]] std::vector<float> read(const Layout& layout, const void* from, std::int32_t index,
                                        bool by_columns) const {
    const Format format = format_of(layout.type);
    const Format factor = factor_of(problem.product.compute, layout.type);
    const auto stride = static_cast<std::size_t>(layout.stride);
    std::vector<float> values;
    values.reserve(layout.rows * layout.columns);
    const auto* const begin =
        static_cast<const std::byte*>(from) + first_of(layout, index) * size_of(format);
    for (std::size_t j = 0; j < layout.columns; ++j) {
      const auto column =
          load_factors(format, factor, begin + j * stride * size_of(format), layout.rows);
      values.insert(values.end(), column.begin(), column.end());
    }
    return by_columns ? values : transpose(values.data(), layout.columns, layout.rows);
  }

  void run_one(std::int32_t index) const {
    const std::size_t m = problem.m();
    const std::size_t n = problem.n();
    const std::size_t k = problem.k();
    // By rows it is D' [n, m] = op(B)' [n, k] op(A)' [k, m].
    const auto left = read(problem.b, b, index, problem.product.transpose_b == CUBLAS_OP_N);
    const auto right = read(problem.a, a, index, problem.product.transpose_a == CUBLAS_OP_N);
    std::vector<float> sums(n * m, 0.0F);
    const std::size_t splits = algorithm.splits;
    for (const std::uint32_t split : order) {
      const std::size_t begin = k * split / splits;
      const std::size_t end = k * (split + 1) / splits;
      if (splits == 1) {
        multiply(n, m, k, left.data(), right.data(), sums.data());
        break;
      }
      std::vector<float> part(n * (end - begin));
      for (std::size_t j = 0; j < n; ++j) {
        std::copy_n(left.data() + j * k + begin, end - begin, part.data() + j * (end - begin));
      }
      multiply(n, m, end - begin, part.data(), right.data() + begin * m, sums.data(), true);
    }
    finish(sums, index);
  }

  void finish(const std::vector<float>& sums, std::int32_t index) const {
    const std::size_t m = problem.m();
    const Format format = format_of(problem.d.type);
    const bool has_bias = (problem.product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    const bool has_relu = (problem.product.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
    for (std::size_t j = 0; j < problem.n(); ++j) {
      for (std::size_t i = 0; i < m; ++i) {
        float value = alpha * sums[j * m + i];
        if (beta != 0) value += beta * load(format, c, place(problem.c, index, i, j));
        if (has_bias) value += load(format, bias, i);
        if (has_relu) value = std::fmax(value, 0.0F);
        store(format, d, place(problem.d, index, i, j), value);
      }
    }
  }
  static std::size_t place(const Layout& layout, std::int32_t index, std::size_t row,
                           std::size_t column) {
    return first_of(layout, index) + column * static_cast<std::size_t>(layout.stride) + row;
  }
};

/// What was chosen for another product may not fit this one.
cublasStatus_t check_algorithm(const Algorithm& algorithm, const Problem& problem) {
  if (algorithm.magic != Algorithm::kMagic) {
    report_violation("cublaslt.algorithm",
                     "cublasLtMatmul: an algorithm that the heuristic did "
                     "not return");
  }
  const Algorithm fitting = algorithm_for(algorithm.number, problem);
  const bool fits = algorithm.epilogue == fitting.epilogue &&
                    algorithm.compute == fitting.compute && algorithm.type == fitting.type &&
                    algorithm.out_type == fitting.out_type &&
                    algorithm.is_batched == fitting.is_batched && algorithm.shape == fitting.shape;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

void check_addresses(const Computation& work) {
  const void* const addresses[] = {work.a, work.b, work.c, work.d};
  constexpr const char* kNames[] = {"A", "B", "C", "D"};
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == 2 && work.beta == 0) continue;
    if (alignment_of(addresses[i]) >= work.algorithm.alignments[i]) continue;
    report_violation(
        "cublaslt.alignment",
        fmt::format("cublasLtMatmul ({}): {} at {} where the algorithm was promised a "
                    "multiple of {}",
                    about(work.problem), kNames[i], addresses[i], work.algorithm.alignments[i]));
  }
  if ((work.problem.product.epilogue & CUBLASLT_EPILOGUE_BIAS) == 0) return;
  if (work.bias == nullptr) {
    report_violation("cublaslt.bias", fmt::format("cublasLtMatmul ({}): an epilogue with a bias, "
                                                  "and no CUBLASLT_MATMUL_DESC_BIAS_POINTER",
                                                  about(work.problem)));
  }
  if (alignment_of(work.bias) >= work.algorithm.bias_alignment) return;
  report_violation(
      "cublaslt.bias-alignment",
      fmt::format("cublasLtMatmul ({}): the bias at {} where the algorithm counts on a "
                  "multiple of {}: the heuristic was asked with another bias pointer",
                  about(work.problem), work.bias, work.algorithm.bias_alignment));
}

cublasStatus_t queue(const Handle& handle, const Computation& work, void* workspace,
                     cudaStream_t stream) {
  const Problem& problem = work.problem;
  Work queued{.call = "cublasLtMatmul",
              .about = about(problem),
              .stream = stream,
              .device = handle.device,
              .operands = {{"A", work.a, span_of(problem.a)},
                           {"B", work.b, span_of(problem.b)},
                           {"D", work.d, span_of(problem.d), true, work.beta != 0}},
              .workspace = workspace,
              .workspace_bytes = work.algorithm.workspace};
  if (work.beta != 0) {
    const bool in_place = work.c == work.d;
    if (in_place && !(problem.c == problem.d)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!in_place) queued.operands.push_back({"C", work.c, span_of(problem.c)});
  }
  if (work.bias != nullptr) {
    queued.operands.push_back(
        {"the bias", work.bias, problem.m() * size_of(format_of(problem.d.type))});
  }
  queue_work(queued, [work] { work.run(); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace taut::twin::cublas

using namespace taut::twin;
using namespace taut::twin::cublas;

extern "C" {

cublasStatus_t cublasLtMatmul(cublasLtHandle_t library, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const auto* const handle = reinterpret_cast<const Handle*>(library);
  const cublasStatus_t status = entry_status("cublasLtMatmul", handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (product == nullptr || alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr ||
      c == nullptr || d == nullptr || a_layout == nullptr || b_layout == nullptr ||
      c_layout == nullptr || d_layout == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (chosen == nullptr) {
    report_violation("cublaslt.not-emulated", "cublasLtMatmul without an algorithm");
  }
  Computation work{problem_of(product, a_layout, b_layout, c_layout, d_layout),
                   {},
                   a,
                   b,
                   c,
                   d,
                   nullptr,
                   0,
                   0,
                   {}};
  const cublasStatus_t checked = work.problem.check();
  if (checked != CUBLAS_STATUS_SUCCESS) return checked;
  std::memcpy(static_cast<void*>(&work.algorithm), chosen, sizeof work.algorithm);
  const cublasStatus_t fits = check_algorithm(work.algorithm, work.problem);
  if (fits != CUBLAS_STATUS_SUCCESS) return fits;
  if (workspace_bytes < work.algorithm.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  if (work.algorithm.workspace > 0 && alignment_of(workspace) < 16) {
    report_violation("cublaslt.workspace-alignment",
                     fmt::format("cublasLtMatmul ({}): a workspace at {}, no multiple of 16",
                                 about(work.problem), workspace));
  }
  std::memcpy(&work.alpha, alpha, sizeof work.alpha);
  std::memcpy(&work.beta, beta, sizeof work.beta);
  if ((work.problem.product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
    work.bias = work.problem.product.bias;
  }
  check_addresses(work);
  work.order.resize(work.algorithm.splits);
  std::iota(work.order.begin(), work.order.end(), 0U);
  if (work.algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE) {
    const auto first = random_number("cublasLtMatmul", work.order.size());
    std::rotate(work.order.begin(), work.order.begin() + static_cast<std::ptrdiff_t>(first),
                work.order.end());
  }
  return queue(*handle, work, workspace, stream);
}
}
