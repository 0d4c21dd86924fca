#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/math/host_device.hpp"
#include "common/math/philox.hpp"

namespace taut::math {

/// The distribution of a table's first values. Fan and variance are already resolved: the fields
/// here need no shape.
struct Filler {
  enum class Kind : std::uint8_t { kConstant, kUniform, kGaussian, kBilinear };
  Kind kind = Kind::kConstant;
  float a = 0;  // the constant; the lower bound; the mean; the extent of the square kernels
  float b = 0;  // -; the upper bound; the standard deviation; -
  // For a gaussian: an element is kept with probability sparse / outputs, else 0; -1: all are kept.
  std::int32_t sparse = -1;
  std::int64_t outputs = 1;

  friend bool operator==(const Filler&, const Filler&) = default;
};

/// The number of a unit's inputs and of its outputs, or the mean of both.
struct Fan {
  double in = 1;
  double out = 1;
};
enum class FanMode : std::uint8_t { kIn, kOut, kAverage };

/// Source    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
///           networks", AISTATS 2010; uniform in +-sqrt(3 / fan), as Caffe has it
[[nodiscard]] Filler xavier(Fan fan, FanMode mode);

/// Source    He et al., "Delving Deep into Rectifiers", ICCV 2015, section 2.2; N(0, 2 / fan)
[[nodiscard]] Filler msra(Fan fan, FanMode mode);

/// Kernels [..., extent, extent] that interpolate linearly in both directions: a Deconvolution with
/// stride s, kernels of 2 s - s % 2, pad ceil((s - 1) / 2) and one group for each channel enlarges
/// images s times.
/// Source    Caffe, filler.hpp
[[nodiscard]] Filler bilinear(std::int64_t extent);

/// Element `index` of a table's first values.
[[nodiscard]] float initial_value(const Filler& filler, std::uint64_t seed, std::uint64_t stream,
                                  std::uint64_t index);

/// Elements [offset, offset + out.size()) of the first values of the table `name` under `seed`.
void fill(const Filler& filler, std::uint64_t seed, std::string_view name, std::uint64_t offset,
          std::span<float> out);

}  // namespace taut::math
