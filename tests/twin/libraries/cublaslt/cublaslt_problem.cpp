#include "tests/twin/libraries/cublaslt/cublaslt_state.hpp"

namespace taut::twin::cublas {
namespace {

bool is_layout(const Layout& layout) {
  return layout.rows > 0 && layout.columns > 0 && layout.batch > 0 && layout.batch_offset >= 0 &&
         layout.stride >= 0 && static_cast<std::uint64_t>(layout.stride) >= layout.rows;
}

/// Whether matrices of a batch do not overlap, as required of what is written.
bool is_apart(const Layout& layout) {
  if (layout.batch == 1) return true;
  return static_cast<std::uint64_t>(layout.batch_offset) >=
         static_cast<std::uint64_t>(layout.stride) * (layout.columns - 1) + layout.rows;
}

/// The rows of cuBLASLt's table of types that have float32 sums.
bool is_supported(const Problem& problem) {
  if (problem.product.scale != CUDA_R_32F) return false;
  const cudaDataType in = problem.a.type;
  const cudaDataType out = problem.d.type;
  switch (problem.product.compute) {
    case CUBLAS_COMPUTE_32F:
      return is_known(in) && (out == CUDA_R_32F || out == in);
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return in == CUDA_R_32F && out == CUDA_R_32F;
    default:
      return false;
  }
}

bool is_epilogue(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_RELU ||
         epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}

bool is_operation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T;
}

}  // namespace

cublasStatus_t Problem::check() const {
  for (const Layout* layout : {&a, &b, &c, &d}) {
    if (!is_layout(*layout) || layout->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_apart(d) || !is_operation(product.transpose_a) || !is_operation(product.transpose_b)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool is_plain_b = product.transpose_b == CUBLAS_OP_N;
  const std::uint64_t a_rows = product.transpose_a == CUBLAS_OP_N ? a.rows : a.columns;
  const std::uint64_t b_rows = is_plain_b ? b.rows : b.columns;
  const std::uint64_t b_columns = is_plain_b ? b.columns : b.rows;
  if (a_rows != m() || b_rows != k() || b_columns != n() || c.rows != m() || c.columns != n()) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool same = a.type == b.type && c.type == d.type;
  if (!same || !is_supported(*this) || !is_epilogue(product.epilogue)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

std::uint64_t Problem::shape() const {
  std::uint64_t sum = 0;
  for (const Layout* layout : {&a, &b, &c, &d}) {
    const std::uint64_t sides[] = {layout->rows, layout->columns,
                                   static_cast<std::uint64_t>(layout->stride),
                                   static_cast<std::uint64_t>(layout->batch),
                                   static_cast<std::uint64_t>(layout->batch_offset)};
    sum = sum * 31 + checksum(sides, sizeof sides);
  }
  return sum;
}

}  // namespace taut::twin::cublas
