#include "cuda/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <limits>
#include <stdexcept>

namespace taut::cuda {
namespace {

cudaDataType_t type_of(Numbers numbers) {
  switch (numbers) {
    case Numbers::kBfloat16:
      return CUDA_R_16BF;
    case Numbers::kFloat16:
      return CUDA_R_16F;
    case Numbers::kFloat32:
    case Numbers::kTf32:
      break;
  }
  return CUDA_R_32F;
}

cublasComputeType_t compute_of(Numbers numbers) {
  return numbers == Numbers::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
void set(const MatmulDescriptor& product, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

/// A row-major matrix is to cuBLAS its transpose, column-major.
MatrixLayout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                    std::int64_t batch) {
  cublasLtMatrixLayout_t handle = nullptr;
  check(cublasLtMatrixLayoutCreate(&handle, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  MatrixLayout owner(handle);
  if (batch == 1) return owner;
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t offset = rows * columns;
  check(cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &offset, sizeof offset),
        "cublasLtMatrixLayoutSetAttribute");
  return owner;
}

cublasLtEpilogue_t epilogue_of(const MatmulSpec& spec) {
  if (spec.bias) return spec.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return spec.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

void check_sides(const MatmulSpec& spec) {
  for (const std::int64_t side : {spec.rows, spec.inner, spec.columns, spec.batch}) {
    if (side < 1 || side > std::numeric_limits<std::int32_t>::max()) {
      throw std::invalid_argument(
          fmt::format("{}: a side must be between 1 and 2^31 - 1", spec.to_string()));
    }
  }
}

/// The largest power of two, up to 16, that divides all of the addresses.
std::uint32_t alignment_of(std::initializer_list<const void*> addresses) {
  std::uintptr_t bits = 16;
  for (const void* address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

}  // namespace

std::string MatmulSpec::to_string() const {
  return fmt::format("product of {}{}x{} by {}x{}, {}",
                     batch == 1 ? "" : fmt::format("{} times ", batch), rows, inner, inner, columns,
                     name_of(numbers));
}

Matmul::Matmul(cublasLtHandle_t library, const MatmulSpec& spec)
    : library_(library), spec_(spec), about_(spec.to_string()) {
  check_sides(spec);
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, compute_of(spec.numbers), CUDA_R_32F),
        "cublasLtMatmulDescCreate", spec.to_string());
  product_ = MatmulDescriptor(product);
  // In column-major order the product is c' = b' a': b is cuBLAS's first factor, a its second.
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB, spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
  const cudaDataType_t type = type_of(spec.numbers);
  left_ = spec.transpose_b ? layout(type, spec.columns, spec.inner, spec.batch)
                           : layout(type, spec.inner, spec.columns, spec.batch);
  right_ = spec.transpose_a ? layout(type, spec.inner, spec.rows, spec.batch)
                            : layout(type, spec.rows, spec.inner, spec.batch);
  out_ = layout(CUDA_R_32F, spec.rows, spec.columns, spec.batch);
  for (const std::uint32_t alignment : {16U, 8U, 4U}) {
    const auto choice = search(alignment);
    if (!choice) continue;  // run() fails if its operands are aligned so
    choices_.emplace(alignment, *choice);
    workspace_ = std::max(workspace_, choice->workspace);
  }
}

const Matmul::Choice& Matmul::choice_for(std::uint32_t alignment) {
  const auto known = choices_.find(alignment);
  if (known == choices_.end()) {
    fail("cublasLtMatmulAlgoGetHeuristic", about_,
         fmt::format("no algorithm for operands that are aligned to {} bytes", alignment));
  }
  return known->second;
}

std::optional<Matmul::Choice> Matmul::search(std::uint32_t alignment) {
  cublasLtMatmulPreference_t handle = nullptr;
  check(cublasLtMatmulPreferenceCreate(&handle), "cublasLtMatmulPreferenceCreate");
  const MatmulPreference preference(handle);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{spec_.workspace_limit});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  if (spec_.deterministic) {
    // Without in-place sums, whose order is that in which blocks end.
    constexpr std::uint32_t kOrdered =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kOrdered);
  }
  // The heuristic reads the bias's alignment from its address: the smallest that is expected.
  if (spec_.bias) {
    set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        std::bit_cast<const void*>(std::uintptr_t{alignment}));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_, product_.get(), left_.get(), right_.get(),
                                     out_.get(), out_.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
  check(status, "cublasLtMatmulAlgoGetHeuristic", about_);
  if (count == 0) return std::nullopt;
  return Choice{found.algo, found.workspaceSize};
}

void Matmul::run(cudaStream_t stream, const void* a, const void* b, const float* bias, float* c,
                 void* workspace, float beta, float alpha) {
  const Choice& choice = choice_for(alignment_of({a, b, c, bias}));
  if (spec_.bias) set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  check(cublasLtMatmul(library_, product_.get(), &alpha, b, left_.get(), a, right_.get(), &beta, c,
                       out_.get(), c, out_.get(), &choice.algorithm, workspace, choice.workspace,
                       stream),
        "cublasLtMatmul", about_);
}

}  // namespace taut::cuda
