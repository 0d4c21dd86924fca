#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <string>

#include "tests/twin/libraries/arithmetic.hpp"

// What the twin's cuBLASLt keeps behind its handles and descriptors.
namespace taut::twin::cublas {

struct Handle {
  int device = 0;
};

struct Layout {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t stride = 0;  // the leading dimension
  std::int32_t batch = 1;
  std::int64_t batch_offset = 0;  // in elements

  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};  // of A, B, C, D
};

/// What is in the bytes of a cublasLtMatmulAlgo_t.
struct Algorithm {
  static constexpr std::uint32_t kMagic = 0x7414B1A5;
  std::uint32_t magic = 0;
  std::uint16_t number = 0;
  std::uint8_t splits = 1;     // of the inner side, each summed separately
  std::uint8_t reduction = 0;  // cublasLtReductionScheme_t
  std::array<std::uint16_t, 4> alignments{1, 1, 1, 1};
  std::uint16_t bias_alignment = 1;
  std::uint16_t epilogue = 0;
  std::uint8_t compute = 0;
  std::uint8_t type = 0;      // of A and B
  std::uint8_t out_type = 0;  // of C and D
  std::uint8_t is_batched = 0;
  std::uint64_t workspace = 0;
  std::uint64_t shape = 0;  // of the product that it was chosen for
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// A product as its descriptors tell it, by columns: D [m, n] = op(A) [m, k] op(B) [k, n].
struct Problem {
  Product product;
  Layout a, b, c, d;

  [[nodiscard]] std::uint64_t m() const { return d.rows; }
  [[nodiscard]] std::uint64_t n() const { return d.columns; }
  [[nodiscard]] std::uint64_t k() const {
    return product.transpose_a == CUBLAS_OP_N ? a.columns : a.rows;
  }
  [[nodiscard]] std::uint64_t shape() const;  // a number for the sides and strides
  /// CUBLAS_STATUS_SUCCESS, or what is wrong with it.
  [[nodiscard]] cublasStatus_t check() const;
};

/// "64x10x500"
[[nodiscard]] std::string about(const Problem& problem);
/// The algorithm of a number, as the heuristic makes it for a problem.
[[nodiscard]] Algorithm algorithm_for(std::uint16_t number, const Problem& problem);
[[nodiscard]] Problem problem_of(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                 cublasLtMatrixLayout_t d);
/// What a call that uses a handle returns at once; CUBLAS_STATUS_SUCCESS: it continues.
[[nodiscard]] cublasStatus_t entry_status(const char* call, const Handle* handle);
/// The largest power of two, up to 256, that an address is a multiple of.
[[nodiscard]] std::uint64_t alignment_of(const void* address);

/// The format of a type that products of ours have.
[[nodiscard]] bool is_known(cudaDataType type);
[[nodiscard]] Format format_of(cudaDataType type);
/// How a compute type rounds factors that are in `type`.
[[nodiscard]] Format factor_of(cublasComputeType_t compute, cudaDataType type);
/// Bytes from a layout's first element to its last.
[[nodiscard]] std::size_t span_of(const Layout& layout);

}  // namespace taut::twin::cublas
