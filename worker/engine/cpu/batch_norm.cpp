#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {
namespace {

/// Two sums for each channel.
struct ChannelSums {
  std::vector<double> first;
  std::vector<double> second;
};

/// Only short parts of a sum are in float, so that a channel of 50,000 elements loses no digits;
/// oneDNN does not document how it sums. A view along axis 1 separates the channels: (outer,
/// channels, inner), with an inner extent of 1 if images are stored channels last.
class BatchNorm final : public BatchNormOp {
 public:
  explicit BatchNorm(const BatchNormSpec& spec)
      : epsilon_(spec.epsilon),
        view_(view_along(spec.shape, 1)),
        count_(static_cast<double>(view_.positions())),
        shift_(view_.length),
        factor_(view_.length) {}

  OpMemory own_memory() const override { return {bytes_of({&shift_, &factor_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override {
    lend_in_turn(kept, {&shift_, &factor_});
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top,
               DeviceSpan<float> mean, DeviceSpan<float> variance) override {
    enter(stream);
    const float* x = bottom.address();
    // Sums of distances from a value in the data, so that little cancels in the variance.
    std::vector<float> near(view_.length);
    for (std::size_t c = 0; c < near.size(); ++c) near[c] = x[c * view_.inner];
    const ChannelSums sums =
        channel_sums([x, &near](std::size_t i, std::size_t c, float& first, float& second) {
          const float distance = x[i] - near[c];
          first += distance;
          second += distance * distance;
        });
    for (std::size_t c = 0; c < near.size(); ++c) {
      const double distance = sums.first[c] / count_;
      const double spread = std::max(sums.second[c] / count_ - distance * distance, 0.0);
      const double middle = double{near[c]} + distance;
      mean.address()[c] = static_cast<float>(middle);
      variance.address()[c] = static_cast<float>(spread);
      settle_channel(c, middle, spread);
    }
    normalize(x, top.address());
  }

  void backward(Stream& stream, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    const float* y = top.address();
    const float* dy = top_gradient.address();
    float* dx = bottom_gradient.address();
    const ChannelSums sums =
        channel_sums([y, dy](std::size_t i, std::size_t, float& first, float& second) {
          first += dy[i];
          second += dy[i] * y[i];
        });
    std::vector<float> mean(view_.length);
    std::vector<float> slope(view_.length);
    for (std::size_t c = 0; c < mean.size(); ++c) {
      mean[c] = static_cast<float>(sums.first[c] / count_);
      slope[c] = static_cast<float>(sums.second[c] / count_);
    }
    for_each([=, this, &mean, &slope](std::size_t i, std::size_t c) {
      dx[i] = factor_[c] * (dy[i] - mean[c] - y[i] * slope[c]);
    });
  }

  void forward_kept(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> mean,
                    DeviceSpan<const float> variance, DeviceSpan<const float> weight,
                    DeviceSpan<float> top) override {
    enter(stream);
    const double share = *weight.address() == 0 ? 0 : 1 / double{*weight.address()};
    for (std::size_t c = 0; c < view_.length; ++c) {
      settle_channel(c, share * mean.address()[c], share * variance.address()[c]);
    }
    normalize(bottom.address(), top.address());
  }

  void backward_kept(Stream& stream, DeviceSpan<const float> top_gradient,
                     DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    const float* dy = top_gradient.address();
    float* dx = bottom_gradient.address();
    for_each([=, this](std::size_t i, std::size_t c) { dx[i] = factor_[c] * dy[i]; });
  }

 private:
  void settle_channel(std::size_t c, double mean, double variance) {
    shift_[c] = static_cast<float>(mean);
    factor_[c] = static_cast<float>(1 / std::sqrt(variance + double{epsilon_}));
  }

  void normalize(const float* x, float* y) const {
    for_each([=, this](std::size_t i, std::size_t c) { y[i] = (x[i] - shift_[c]) * factor_[c]; });
  }

  /// Calls work(i, c) for each element i, of channel c.
  template <class Work>
  void for_each(const Work& work) const {
    const std::size_t row = view_.inner == 1 ? view_.length : view_.inner;
    const std::size_t rows = view_.outer * view_.length * view_.inner / row;
    parallel_ranges(rows, grain(row), [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r) {
        const std::size_t channel = r % view_.length;
        if (view_.inner == 1) {
          for (std::size_t c = 0; c < row; ++c) work(r * row + c, c);
        } else {
          for (std::size_t i = 0; i < row; ++i) work(r * row + i, channel);
        }
      }
    });
  }

  /// add(i, c, first, second) adds element i of channel c to the channel's sums.
  template <class Add>
  [[nodiscard]] ChannelSums channel_sums(const Add& add) const {
    return view_.inner == 1 ? sums_of_rows(add) : sums_of_planes(add);
  }

  template <class Add>
  [[nodiscard]] ChannelSums sums_of_rows(const Add& add) const {
    const std::size_t channels = view_.length;
    const std::size_t parts = std::clamp<std::size_t>(
        view_.outer / grain(channels), 1, static_cast<std::size_t>(omp_get_max_threads()));
    std::vector<ChannelSums> partial(parts);
    parallel_ranges(parts, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t part = begin; part < end; ++part) {
        partial[part] = {std::vector<double>(channels), std::vector<double>(channels)};
        add_rows(view_.outer * part / parts, view_.outer * (part + 1) / parts, add, partial[part]);
      }
    });
    for (std::size_t part = 1; part < parts; ++part) {
      for (std::size_t c = 0; c < channels; ++c) {
        partial[0].first[c] += partial[part].first[c];
        partial[0].second[c] += partial[part].second[c];
      }
    }
    return std::move(partial[0]);
  }

  template <class Add>
  void add_rows(std::size_t begin, std::size_t end, const Add& add, ChannelSums& sums) const {
    constexpr std::size_t kRows = 32;
    const std::size_t channels = view_.length;
    std::vector<float> short_sums(2 * channels);
    float* first = short_sums.data();
    float* second = first + channels;
    for (std::size_t block = begin; block < end; block += kRows) {
      std::ranges::fill(short_sums, 0.0F);
      for (std::size_t row = block; row < std::min(block + kRows, end); ++row) {
#pragma omp simd
        for (std::size_t c = 0; c < channels; ++c) {
          add(row * channels + c, c, first[c], second[c]);
        }
      }
      for (std::size_t c = 0; c < channels; ++c) {
        sums.first[c] += first[c];
        sums.second[c] += second[c];
      }
    }
  }

  template <class Add>
  [[nodiscard]] ChannelSums sums_of_planes(const Add& add) const {
    ChannelSums sums{std::vector<double>(view_.length), std::vector<double>(view_.length)};
    const std::size_t plane = view_.inner;
    parallel_ranges(view_.length, grain(plane * view_.outer),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t c = begin; c < end; ++c) {
                        for (std::size_t o = 0; o < view_.outer; ++o) {
                          add_plane((o * view_.length + c) * plane, c, add, sums);
                        }
                      }
                    });
    return sums;
  }

  template <class Add>
  void add_plane(std::size_t at, std::size_t c, const Add& add, ChannelSums& sums) const {
    constexpr std::size_t kPart = 256;
    for (std::size_t begin = 0; begin < view_.inner; begin += kPart) {
      const std::size_t end = std::min(begin + kPart, view_.inner);
      float first = 0;
      float second = 0;
#pragma omp simd reduction(+ : first, second)
      for (std::size_t i = begin; i < end; ++i) add(at + i, c, first, second);
      sums.first[c] += first;
      sums.second[c] += second;
    }
  }

  static std::size_t grain(std::size_t row) {
    return std::max<std::size_t>(kElementGrain / row, 1);
  }

  float epsilon_;
  AxisView view_;
  double count_;
  OwnMemory shift_;   // from the last forward
  OwnMemory factor_;  // 1 / sqrt(variance + epsilon)
};

}  // namespace

std::unique_ptr<BatchNormOp> make_op(const BatchNormSpec& spec) {
  return std::make_unique<BatchNorm>(spec);
}

}  // namespace taut::cpu
