#include <algorithm>
#include <cstddef>
#include <vector>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/cpu/tensor_walk.hpp"

namespace taut::cpu {
namespace {

/// The stride in the factors for each axis of the tensor.
std::vector<std::size_t> factor_strides(const AffineSpec& spec) {
  const std::vector<std::size_t> own =
      spec.factors_are_tensor ? tensor_strides(spec.factors) : row_strides(spec.factors);
  std::vector<std::size_t> strides(spec.shape.size(), 0);
  std::copy(own.begin(), own.end(), strides.begin() + static_cast<std::ptrdiff_t>(spec.axis));
  return strides;
}

/// Sums into an array that is traversed with a tensor: short sums in float, long ones in double.
class Sums {
 public:
  Sums(const TensorWalk& walk, float* into, std::size_t size)
      : walk_(walk), into_(into), total_(into == nullptr ? 0 : size, 0.0) {
    if (into != nullptr && walk.row_stride() != 0) part_.resize(walk.row_length(), 0.0F);
  }

  /// Adds term(i), i within the row, to the elements that correspond to element i.
  template <class Term>
  void add_row(std::size_t small_offset, const Term& term) {
    if (into_ == nullptr) return;
    const std::size_t length = walk_.row_length();
    if (walk_.row_stride() == 0) {
      constexpr std::size_t kPart = 512;
      for (std::size_t begin = 0; begin < length; begin += kPart) {
        const std::size_t end = std::min(begin + kPart, length);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::size_t i = begin; i < end; ++i) sum += term(i);
        total_[small_offset] += sum;
      }
      return;
    }
    constexpr std::size_t kRows = 32;
    if (small_offset != offset_ || pending_ == kRows) flush();
    offset_ = small_offset;
    float* part = part_.data();
    for (std::size_t i = 0; i < length; ++i) part[i] += term(i);
    ++pending_;
  }

  void finish() {
    flush();
    for (std::size_t i = 0; i < total_.size(); ++i) into_[i] = static_cast<float>(total_[i]);
  }

 private:
  void flush() {
    if (pending_ == 0) return;
    for (std::size_t i = 0; i < part_.size(); ++i) {
      total_[offset_ + i * walk_.row_stride()] += part_[i];
      part_[i] = 0;
    }
    pending_ = 0;
  }

  const TensorWalk& walk_;
  float* into_;
  std::vector<double> total_;
  std::vector<float> part_;
  std::size_t pending_ = 0;
  std::size_t offset_ = 0;
};

/// Calls work(begin, row) for each row; in parallel unless sums need a fixed order.
template <class Work>
void for_each_row(const TensorWalk& walk, bool in_parallel, const Work& work) {
  const auto range = [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) work(row * walk.row_length(), row);
  };
  if (!in_parallel) return range(0, walk.rows());
  parallel_ranges(walk.rows(), std::max<std::size_t>(kElementGrain / walk.row_length(), 1), range);
}

class Affine final : public AffineOp {
 public:
  explicit Affine(const AffineSpec& spec)
      : spec_(spec), walk_(spec.shape, factor_strides(spec)), size_(1) {
    for (const std::int64_t extent : spec.factors) size_ *= static_cast<std::size_t>(extent);
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
               DeviceSpan<const float> summands, DeviceSpan<float> top) override {
    enter(stream);
    const std::size_t length = walk_.row_length();
    const std::size_t stride = walk_.row_stride();
    for_each_row(walk_, true, [&](std::size_t at, std::size_t row) {
      const std::size_t small = walk_.small_offset(row);
      const float* x = bottom.address() + at;
      float* y = top.address() + at;
      const float* a = spec_.scale ? factors.address() + small : nullptr;
      const float* b = spec_.bias ? summands.address() + small : nullptr;
      if (stride == 0) {
        const float factor = a == nullptr ? 1 : *a;
        const float summand = b == nullptr ? 0 : *b;
        for (std::size_t i = 0; i < length; ++i) y[i] = x[i] * factor + summand;
      } else if (a != nullptr && b != nullptr) {
        for (std::size_t i = 0; i < length; ++i) y[i] = x[i] * a[i * stride] + b[i * stride];
      } else if (a != nullptr) {
        for (std::size_t i = 0; i < length; ++i) y[i] = x[i] * a[i * stride];
      } else {
        for (std::size_t i = 0; i < length; ++i) y[i] = x[i] + b[i * stride];
      }
    });
  }

  void backward(Stream& stream, Bottom bottom, DeviceSpan<const float> factors,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient,
                DeviceSpan<float> factors_gradient, DeviceSpan<float> summands_gradient) override {
    enter(stream);
    Sums factor_sums(walk_, factors_gradient.address(), size_);
    Sums summand_sums(walk_, summands_gradient.address(), size_);
    const bool sums = !factors_gradient.empty() || !summands_gradient.empty();
    const std::size_t length = walk_.row_length();
    const std::size_t stride = walk_.row_stride();
    for_each_row(walk_, !sums, [&](std::size_t at, std::size_t row) {
      const std::size_t small = walk_.small_offset(row);
      const float* dy = top_gradient.address() + at;
      if (sums) {
        const float* x = bottom.address() + at;
        factor_sums.add_row(small, [=](std::size_t i) { return dy[i] * x[i]; });
        summand_sums.add_row(small, [=](std::size_t i) { return dy[i]; });
      }
      if (bottom_gradient.empty()) return;
      float* dx = bottom_gradient.address() + at;
      if (!spec_.scale) {
        if (dx != dy) std::copy(dy, dy + length, dx);
        return;
      }
      const float* a = factors.address() + small;
      for (std::size_t i = 0; i < length; ++i) dx[i] = dy[i] * a[i * stride];
    });
    factor_sums.finish();
    summand_sums.finish();
  }

 private:
  AffineSpec spec_;
  TensorWalk walk_;
  std::size_t size_;
};

std::vector<std::size_t> slope_strides(const PReluSpec& spec) {
  std::vector<std::size_t> strides(spec.shape.size(), 0);
  if (!spec.shared) strides[1] = 1;
  return strides;
}

class PRelu final : public PReluOp {
 public:
  explicit PRelu(const PReluSpec& spec)
      : walk_(spec.shape, slope_strides(spec)),
        size_(spec.shared ? 1 : static_cast<std::size_t>(spec.shape[1])) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> slopes,
               DeviceSpan<float> top) override {
    enter(stream);
    const std::size_t stride = walk_.row_stride();
    for_each_row(walk_, true, [&](std::size_t at, std::size_t row) {
      const float* x = bottom.address() + at;
      const float* slope = slopes.address() + walk_.small_offset(row);
      float* y = top.address() + at;
      for (std::size_t i = 0; i < walk_.row_length(); ++i) {
        y[i] = x[i] > 0 ? x[i] : slope[i * stride] * x[i];
      }
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> slopes,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient,
                DeviceSpan<float> slopes_gradient) override {
    enter(stream);
    Sums sums(walk_, slopes_gradient.address(), size_);
    const std::size_t stride = walk_.row_stride();
    for_each_row(walk_, slopes_gradient.empty(), [&](std::size_t at, std::size_t row) {
      const std::size_t small = walk_.small_offset(row);
      const float* x = bottom.address() + at;
      const float* dy = top_gradient.address() + at;
      sums.add_row(small, [=](std::size_t i) { return x[i] > 0 ? 0.0F : dy[i] * x[i]; });
      if (bottom_gradient.empty()) return;
      const float* slope = slopes.address() + small;
      float* dx = bottom_gradient.address() + at;
      for (std::size_t i = 0; i < walk_.row_length(); ++i) {
        dx[i] = x[i] > 0 ? dy[i] : dy[i] * slope[i * stride];
      }
    });
    sums.finish();
  }

 private:
  TensorWalk walk_;
  std::size_t size_;
};

}  // namespace

std::unique_ptr<AffineOp> make_op(const AffineSpec& spec) {
  return std::make_unique<Affine>(spec);
}

std::unique_ptr<PReluOp> make_op(const PReluSpec& spec) {
  return std::make_unique<PRelu>(spec);
}

}  // namespace taut::cpu
