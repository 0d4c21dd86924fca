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

/// A matrix that lies row by row is to cuBLAS its transpose, column by column.
MatrixLayout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                    std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  MatrixLayout owner(made);
  if (batch == 1) return owner;
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t offset = rows * columns;
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
                                         sizeof offset),
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
          fmt::format("{}: a side must lie between 1 and 2^31 - 1", spec.to_string()));
    }
  }
}

/// The largest power of two, up to 16, that all of the addresses are multiples of.
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
  // By columns the product reads c' = b' a': b is cuBLAS's first factor, a its second.
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB, spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
  const cudaDataType_t type = type_of(spec.numbers);
  left_ = spec.transpose_b ? layout(type, spec.columns, spec.inner, spec.batch)
                           : layout(type, spec.inner, spec.columns, spec.batch);
  right_ = spec.transpose_a ? layout(type, spec.inner, spec.rows, spec.batch)
                            : layout(type, spec.rows, spec.inner, spec.batch);
  out_ = layout(CUDA_R_32F, spec.rows, spec.columns, spec.batch);
}

const cublasLtMatmulAlgo_t& Matmul::algorithm_for(std::uint32_t alignment) {
  const auto known = algorithms_.find(alignment);
  if (known != algorithms_.end()) return known->second;
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const MatmulPreference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  if (spec_.deterministic) {
    // Without sums in place, whose order is that in which blocks end.
    constexpr std::uint32_t kOrdered =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kOrdered);
  }
  // The heuristic reads the bias' alignment off its address: the least that is to come is named.
  if (spec_.bias) {
    set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        std::bit_cast<const void*>(std::uintptr_t{alignment}));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(library_, product_.get(), left_.get(), right_.get(),
                                       out_.get(), out_.get(), preference.get(), 1, &found, &count),
        "cublasLtMatmulAlgoGetHeuristic", about_);
  if (count == 0) {
    fail("cublasLtMatmulAlgoGetHeuristic", about_, "no algorithm for this product");
  }
  return algorithms_.emplace(alignment, found.algo).first->second;
}

void Matmul::run(cudaStream_t stream, const void* a, const void* b, const float* bias, float* c,
                 void* workspace, float beta, float alpha) {
  const cublasLtMatmulAlgo_t& algorithm = algorithm_for(alignment_of({a, b, c, bias}));
  if (spec_.bias) set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  check(cublasLtMatmul(library_, product_.get(), &alpha, b, left_.get(), a, right_.get(), &beta, c,
                       out_.get(), c, out_.get(), &algorithm, workspace, kWorkspace, stream),
        "cublasLtMatmul", about_);
}

}  // namespace taut::cuda
