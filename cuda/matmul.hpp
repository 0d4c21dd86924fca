#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cuda/convolution_key.hpp"
#include "cuda/handles.hpp"

namespace taut::cuda {

/// c [rows, columns] = alpha * a [rows, inner] * b [inner, columns] + beta * c, row-major;
/// optionally with a bias [columns] in every row, and a ReLU at the end. a and b are in `numbers`
/// (float32 for TF32), c and bias are float32.
struct MatmulSpec {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  bool transpose_a = false;  // a is stored as [inner, rows]
  bool transpose_b = false;  // b is stored as [columns, inner]
  bool bias = false;
  bool relu = false;
  /// Products of the same shape, contiguous in memory.
  std::int64_t batch = 1;
  Numbers numbers = Numbers::kFloat32;
  bool deterministic = false;
  /// The limit of an algorithm's workspace, in bytes.
  std::size_t workspace_limit = kMaxWorkspace;
  static constexpr std::size_t kMaxWorkspace = 32UL << 20U;

  [[nodiscard]] std::string to_string() const;
};

/// One shape of matrix product on cuBLASLt; the algorithm is chosen once for each alignment of the
/// operands.
/// Thread    one at a time
class Matmul {
 public:
  /// Errors    std::invalid_argument: an extent of 0, or of 2^31 or more
  Matmul(cublasLtHandle_t library, const MatmulSpec& spec);

  /// Bytes that run() needs, however its operands are aligned.
  [[nodiscard]] std::size_t workspace() const { return workspace_; }

  /// bias       nullptr if the spec has none
  /// workspace  workspace() bytes, aligned to 256
  void run(cudaStream_t stream, const void* a, const void* b, const float* bias, float* c,
           void* workspace, float beta = 0, float alpha = 1);

 private:
  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace = 0;
  };
  [[nodiscard]] const Choice& choice_for(std::uint32_t alignment);
  [[nodiscard]] std::optional<Choice> search(std::uint32_t alignment);

  cublasLtHandle_t library_;
  MatmulSpec spec_;
  std::string about_;  // for errors
  MatmulDescriptor product_;
  MatrixLayout left_, right_, out_;          // in cuBLAS's order, by columns
  std::map<std::uint32_t, Choice> choices_;  // by alignment in bytes
  std::size_t workspace_ = 0;
};

}  // namespace taut::cuda
