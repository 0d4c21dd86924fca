#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/twin/libraries/arithmetic.hpp"

namespace taut::twin::test {

using Values = std::vector<float>;

/// Numbers in [-1, 1) that a seed decides.
[[nodiscard]] Values some_values(std::size_t count, std::uint64_t seed);

/// Numbers in the twin's device memory, on device 0.
class DeviceValues {
 public:
  /// Poisoned.
  explicit DeviceValues(std::size_t count, Format format = Format::kFloat32);
  explicit DeviceValues(const Values& values, Format format = Format::kFloat32);
  ~DeviceValues();
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  [[nodiscard]] void* get() const { return begin_; }
  [[nodiscard]] float* floats() const { return static_cast<float*>(begin_); }
  [[nodiscard]] std::size_t bytes() const { return count_ * size_of(format_); }
  /// The values when all that is queued on the stream has run.
  [[nodiscard]] Values read(cudaStream_t stream = nullptr) const;
  void write(const Values& values);

 private:
  std::size_t count_;
  Format format_;
  void* begin_;
};

/// The largest difference between elements, as a part of the largest element expected.
[[nodiscard]] double difference(const Values& found, const std::vector<double>& expected);

}  // namespace taut::twin::test
