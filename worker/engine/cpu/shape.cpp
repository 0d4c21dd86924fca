#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/cpu/tensor_walk.hpp"

namespace taut::cpu {

void copy_part(const PartCopy& part, const float* from, float* to) {
  const AxisView source = view_along(part.from, part.axis);
  const AxisView target = view_along(part.to, part.axis);
  TAUT_CHECK(source.outer == target.outer && source.inner == target.inner,
             "parts of tensors that differ in another axis");
  const auto length = static_cast<std::size_t>(part.length) * source.inner;
  const float* x = from + static_cast<std::size_t>(part.from_offset) * source.inner;
  float* y = to + static_cast<std::size_t>(part.to_offset) * target.inner;
  const std::size_t source_step = source.length * source.inner;
  const std::size_t target_step = target.length * target.inner;
  const std::size_t grain =
      std::max<std::size_t>(kElementGrain / std::max<std::size_t>(length, 1), 1);
  parallel_ranges(source.outer, grain, [=](std::size_t begin, std::size_t end) {
    for (std::size_t o = begin; o < end; ++o) {
      std::copy_n(x + o * source_step, length, y + o * target_step);
    }
  });
}

void reshape(const Extents& from_shape, const Extents& to_shape, DeviceSpan<const float> from,
             DeviceSpan<float> to) {
  TAUT_CHECK(from.size() == to.size(), "a reshape keeps the count");
  const bool source_last = is_channels_last(from_shape);
  const bool target_last = is_channels_last(to_shape);
  if (from_shape == to_shape || (!source_last && !target_last)) {
    std::copy_n(from.address(), from.size(), to.address());
    return;
  }
  const float* rows = from.address();
  std::vector<float> between;
  if (source_last) {
    float* into = to.address();
    if (target_last) {
      between.resize(from.size());
      into = between.data();
    }
    dnnl_cpu::ImageReorder(image_shape(from_shape), dnnl_cpu::ImageOrder::kChannelsFirst)
        .run(rows, into);
    rows = into;
  }
  if (target_last) {
    dnnl_cpu::ImageReorder(image_shape(to_shape), dnnl_cpu::ImageOrder::kChannelsLast)
        .run(rows, to.address());
  }
}

namespace {

class Reduction final : public ReductionOp {
 public:
  explicit Reduction(const ReductionSpec& spec) : spec_(spec), walk_(spec.shape, strides(spec)) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    enter(stream);
    std::vector<double> sums(top.size());
    for_each([&](std::size_t at, std::size_t into) {
      const double x = bottom.address()[at];
      sums[into] += spec_.kind == ReductionKind::kSum
                        ? x
                        : (spec_.kind == ReductionKind::kSquareSum ? x * x : std::abs(x));
    });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      top.address()[i] = static_cast<float>(spec_.factor * sums[i]);
    }
  }

  void backward(Stream& stream, Bottom bottom, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    for_each([&](std::size_t at, std::size_t from) {
      const float slope = spec_.factor * top_gradient.address()[from];
      if (spec_.kind == ReductionKind::kSum) {
        bottom_gradient.address()[at] = slope;
        return;
      }
      const float x = bottom.address()[at];
      const float sign = static_cast<float>(x > 0) - static_cast<float>(x < 0);
      bottom_gradient.address()[at] =
          slope * (spec_.kind == ReductionKind::kSquareSum ? 2 * x : sign);
    });
  }

 private:
  static std::vector<std::size_t> strides(const ReductionSpec& spec) {
    const Extents kept(spec.shape.begin(),
                       spec.shape.begin() + static_cast<std::ptrdiff_t>(spec.axis));
    std::vector<std::size_t> strides = tensor_strides(kept);
    strides.resize(spec.shape.size(), 0);
    return strides;
  }

  /// Calls work(from, to) with the place of each element and of the one that it is reduced into.
  template <class Work>
  void for_each(const Work& work) const {
    for (std::size_t row = 0; row < walk_.rows(); ++row) {
      const std::size_t small = walk_.small_offset(row);
      for (std::size_t i = 0; i < walk_.row_length(); ++i) {
        work(row * walk_.row_length() + i, small + i * walk_.row_stride());
      }
    }
  }

  ReductionSpec spec_;
  TensorWalk walk_;
};

class ArgMax final : public ArgMaxOp {
 public:
  explicit ArgMax(const ArgMaxSpec& spec) : spec_(spec) {
    if (spec.whole_record && is_channels_last(spec.bottom))
      rows_.resize(image_shape(spec.bottom).count());
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    enter(stream);
    if (spec_.whole_record) {
      rank_records(bottom, top);
    } else {
      rank_axis(bottom, top);
    }
  }

 private:
  [[nodiscard]] std::size_t top_k() const { return static_cast<std::size_t>(spec_.top_k); }

  /// The indices of the largest of `length` elements, `step` apart.
  void rank(const float* x, std::size_t length, std::size_t step) {
    order_.resize(length);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(top_k()),
                      order_.end(), [=](std::size_t a, std::size_t b) {
                        return x[a * step] != x[b * step] ? x[a * step] > x[b * step] : a < b;
                      });
  }

  void rank_records(DeviceSpan<const float> bottom, DeviceSpan<float> top) {
    const float* x = bottom.address();
    if (!rows_.empty()) {
      dnnl_cpu::ImageReorder(image_shape(spec_.bottom), dnnl_cpu::ImageOrder::kChannelsFirst)
          .run(x, rows_.data());
      x = rows_.data();
    }
    const auto records = static_cast<std::size_t>(spec_.bottom[0]);
    const std::size_t length = bottom.size() / records;
    const std::vector<std::size_t> steps = tensor_strides(spec_.top);
    for (std::size_t record = 0; record < records; ++record, x += length) {
      rank(x, length, 1);
      float* y = top.address() + record * steps[0];
      for (std::size_t k = 0; k < top_k(); ++k) {
        y[k * steps[2]] = static_cast<float>(order_[k]);
        if (spec_.output == ArgMaxOutput::kBoth) y[steps[1] + k * steps[2]] = x[order_[k]];
      }
    }
  }

  void rank_axis(DeviceSpan<const float> bottom, DeviceSpan<float> top) {
    const AxisView from = view_along(spec_.bottom, spec_.axis);
    const AxisView to = view_along(spec_.top, spec_.axis);
    for (std::size_t outer = 0; outer < from.outer; ++outer) {
      for (std::size_t inner = 0; inner < from.inner; ++inner) {
        const float* x = bottom.address() + outer * from.length * from.inner + inner;
        float* y = top.address() + outer * to.length * to.inner + inner;
        rank(x, from.length, from.inner);
        for (std::size_t k = 0; k < top_k(); ++k) {
          const bool values = spec_.output == ArgMaxOutput::kValues;
          y[k * to.inner] = values ? x[order_[k] * from.inner] : static_cast<float>(order_[k]);
        }
      }
    }
  }

  ArgMaxSpec spec_;
  std::vector<std::size_t> order_;
  std::vector<float> rows_;  // the bottom in Caffe's order, where that differs
};

}  // namespace

std::unique_ptr<ReductionOp> make_op(const ReductionSpec& spec) {
  return std::make_unique<Reduction>(spec);
}

std::unique_ptr<ArgMaxOp> make_op(const ArgMaxSpec& spec) {
  return std::make_unique<ArgMax>(spec);
}

}  // namespace taut::cpu
