#pragma once

#include <cstdint>
#include <memory>

#include "worker/engine/cpu/own_memory.hpp"

// Matrix products that the sequence operations need from oneDNN. Errors: std::invalid_argument when
// made, DeviceError while they run.
namespace taut::dnnl_cpu {

struct PackedMatmulSpec {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  bool transpose_b = false;  // b is stored as [columns, inner]
};

/// c [rows, columns] += a [rows, inner] * b [inner, columns], many times with the same b, which is
/// packed once into the order of oneDNN's fastest kernel.
class PackedMatmul {
 public:
  explicit PackedMatmul(const PackedMatmulSpec& spec);
  ~PackedMatmul();
  PackedMatmul(const PackedMatmul&) = delete;
  PackedMatmul& operator=(const PackedMatmul&) = delete;

  void pack(const float* b);
  /// Uses the b that was packed last.
  void add(const float* a, float* c);
  /// The packed b, and the memory that the product needs during a run.
  [[nodiscard]] cpu::OwnMemory& packed();
  [[nodiscard]] const cpu::OwnMemory& packed() const;
  [[nodiscard]] cpu::OwnMemory& scratch();
  [[nodiscard]] const cpu::OwnMemory& scratch() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A matrix in memory: element (i, j) is at i * step + j, or transposed at j * step + i.
struct MatrixView {
  const float* address = nullptr;
  std::int64_t step = 0;
  bool transposed = false;
};

/// c [rows, columns] = alpha * a [rows, inner] * b [inner, columns]; c's rows are `step` apart.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, float alpha,
              const MatrixView& a, const MatrixView& b, float* c, std::int64_t step);

}  // namespace taut::dnnl_cpu
