#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "cuda/convolution_key.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {

/// c [rows, columns] = alpha * a [rows, inner] * b [inner, columns] + beta * c, row by row; with a
/// bias [columns] in every row and a ReLU at the end where they are asked for. a and b lie in
/// `numbers` (float32 for TF32), c and bias are float32.
struct MatmulSpec {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  bool transpose_a = false;  // a lies as [inner, rows]
  bool transpose_b = false;  // b lies as [columns, inner]
  bool bias = false;
  bool relu = false;
  /// Products of the same shape after each other in memory.
  std::int64_t batch = 1;
  Numbers numbers = Numbers::kFloat32;
  bool deterministic = false;

  [[nodiscard]] std::string to_string() const;
};

/// One shape of matrix product on cuBLASLt; the algorithm is chosen once for each alignment that
/// the operands come with.
/// Thread    one at a time
class Matmul {
 public:
  /// Bytes of workspace that run() wants.
  static constexpr std::size_t kWorkspace = 32UL << 20U;

  /// Errors    std::invalid_argument: a side of no elements or of 2^31 or more
  Matmul(cublasLtHandle_t library, const MatmulSpec& spec);

  /// bias       null where the spec has none
  /// workspace  kWorkspace bytes, aligned to 256
  void run(cudaStream_t stream, const void* a, const void* b, const float* bias, float* c,
           void* workspace, float beta = 0, float alpha = 1);

 private:
  [[nodiscard]] const cublasLtMatmulAlgo_t& algorithm_for(std::uint32_t alignment);

  cublasLtHandle_t library_;
  MatmulSpec spec_;
  std::string about_;  // for errors
  MatmulDescriptor product_;
  MatrixLayout left_, right_, out_;                           // as cuBLAS counts them: by columns
  std::map<std::uint32_t, cublasLtMatmulAlgo_t> algorithms_;  // by alignment in bytes
};

}  // namespace taut::cuda
