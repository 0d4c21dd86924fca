#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/ops/pooling.hpp"

// This folder is the only place that uses oneDNN, whose interface differs between versions 2 and 3.
// Images are stored channels last. Errors: std::invalid_argument when an operation is made;
// DeviceError while it runs.
namespace taut::dnnl_cpu {

/// "2.6.0"
[[nodiscard]] std::string version();

[[nodiscard]] std::unique_ptr<PoolingOp> make_max_pooling(const PoolingSpec& spec);

struct MatmulSpec {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  bool transpose_a = false;  // a is [inner, rows]
  bool transpose_b = false;  // b is [columns, inner]
  bool bias = false;
};

/// c [rows, columns] = a [rows, inner] * b [inner, columns] + bias [columns]
class Matmul {
 public:
  explicit Matmul(const MatmulSpec& spec);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  void run(const float* a, const float* b, const float* bias, float* c);
  /// The memory that the product needs during a run.
  [[nodiscard]] cpu::OwnMemory& scratch();
  [[nodiscard]] const cpu::OwnMemory& scratch() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class ImageOrder : std::uint8_t { kChannelsFirst, kChannelsLast };

/// Copies images from the other order to this one.
class ImageReorder {
 public:
  ImageReorder(const ImageShape& shape, ImageOrder to);
  ~ImageReorder();
  ImageReorder(const ImageReorder&) = delete;
  ImageReorder& operator=(const ImageReorder&) = delete;

  void run(const float* from, float* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace taut::dnnl_cpu
