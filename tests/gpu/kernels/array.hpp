#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "cuda/error.hpp"

// Kernels by themselves: no backend, no cuDNN, no cuBLASLt. The same cases run on the device twin,
// under several schedules, and on a device.
namespace taut::test {

/// A stream for one test.
class TestStream {
 public:
  TestStream() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  ~TestStream() { (void)cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)
  void finish() const { cuda::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Separate device memory with this many elements, which starts `shift` elements into its
/// allocation: to test aligned and unaligned addresses.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t count, std::int64_t shift = 0) : count_(count), shift_(shift) {
    void* place = nullptr;
    cuda::check(cudaMalloc(&place, static_cast<std::size_t>(count + shift) * sizeof(T)), "array");
    base_ = static_cast<T*>(place);
  }
  explicit Array(const std::vector<T>& values, std::int64_t shift = 0)
      : Array(static_cast<std::int64_t>(values.size()), shift) {
    if (values.empty()) return;
    const TestStream stream;
    cuda::check(cudaMemcpyAsync(at(), values.data(), values.size() * sizeof(T),
                                cudaMemcpyHostToDevice, stream),
                "to the device");
    stream.finish();
  }
  ~Array() { (void)cudaFree(base_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  [[nodiscard]] T* at() const { return base_ + shift_; }
  /// What it holds once the stream's work is done.
  [[nodiscard]] std::vector<T> values(const TestStream& stream) const {
    std::vector<T> out(static_cast<std::size_t>(count_));
    if (count_ > 0) {
      cuda::check(
          cudaMemcpyAsync(out.data(), at(), out.size() * sizeof(T), cudaMemcpyDeviceToHost, stream),
          "to the host");
    }
    stream.finish();
    return out;
  }

 private:
  T* base_ = nullptr;
  std::int64_t count_;
  std::int64_t shift_;
};

inline std::vector<float> random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> number(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = number(engine);
  return values;
}

inline std::size_t place(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Each schedule of the twin's that these tests run under; once on a device.
template <class Work>
void on_each_schedule(const Work& work);

}  // namespace taut::test

#ifdef TAUT_DEVICE_TWIN
#include "tests/twin/runtime/seed.hpp"
#endif

namespace taut::test {

template <class Work>
void on_each_schedule(const Work& work) {
#ifdef TAUT_DEVICE_TWIN
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 7U}) {
    twin::set_seed(seed);
    work();
  }
#else
  work();
#endif
}

}  // namespace taut::test
