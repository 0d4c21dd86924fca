#include "common/math/filler.hpp"

#include <cmath>
#include <cstddef>

namespace taut::math {
namespace {

double fan_of(Fan fan, FanMode mode) {
  switch (mode) {
    case FanMode::kIn:
      return fan.in;
    case FanMode::kOut:
      return fan.out;
    case FanMode::kAverage:
      return (fan.in + fan.out) / 2;
  }
  return fan.in;
}

/// Whether a sparse gaussian keeps an element.
bool is_kept(const Filler& filler, std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  if (filler.sparse < 0) return true;
  // Counters that no value is drawn with: an element's value is independent of whether it is kept.
  constexpr std::uint64_t kOwnCounters = std::uint64_t{1} << 63U;
  const Philox draw = Philox::at(seed, stream, kOwnCounters | index / 4);
  const double share = static_cast<double>(draw.words[index % 4]) * 0x1.0p-32;
  return share * static_cast<double>(filler.outputs) < static_cast<double>(filler.sparse);
}

/// A tent over the kernel's middle: 1 at its top, 0 at the next kernel's top.
double tent(std::uint64_t place, std::uint64_t extent) {
  const std::uint64_t half = (extent + 1) / 2;
  const auto slope = static_cast<double>(half);
  const double top = static_cast<double>(extent - 1) / (2 * slope);
  return 1 - std::abs(static_cast<double>(place) / slope - top);
}

float uniform(const Filler& filler, std::uint32_t word) {
  return filler.a + (filler.b - filler.a) * unit_float(word);
}

/// Box and Muller, 1958: two words make a pair of normal numbers, one for each parity.
struct NormalPair {
  NormalPair(std::uint32_t first, std::uint32_t second)
      : radius(std::sqrt(-2 * std::log((static_cast<double>(first) + 1) * 0x1.0p-32))),
        angle(kTwoPi * (static_cast<double>(second) * 0x1.0p-32)) {}

  [[nodiscard]] float even(const Filler& filler) const {
    return filler.a + filler.b * static_cast<float>(radius * std::cos(angle));
  }
  [[nodiscard]] float odd(const Filler& filler) const {
    return filler.a + filler.b * static_cast<float>(radius * std::sin(angle));
  }

  static constexpr double kTwoPi = 6.283185307179586;
  double radius;
  double angle;
};

/// The values of one draw's four words.
void fill_four(const Filler& filler, const Philox& draw, std::span<float, 4> out) {
  if (filler.kind == Filler::Kind::kUniform) {
    for (std::size_t i = 0; i < 4; ++i) out[i] = uniform(filler, draw.words[i]);
    return;
  }
  for (std::size_t i = 0; i < 4; i += 2) {
    const NormalPair pair(draw.words[i], draw.words[i + 1]);
    out[i] = pair.even(filler);
    out[i + 1] = pair.odd(filler);
  }
}

}  // namespace

Filler xavier(Fan fan, FanMode mode) {
  const auto bound = static_cast<float>(std::sqrt(3.0 / fan_of(fan, mode)));
  return Filler{Filler::Kind::kUniform, -bound, bound};
}

Filler msra(Fan fan, FanMode mode) {
  return Filler{Filler::Kind::kGaussian, 0, static_cast<float>(std::sqrt(2.0 / fan_of(fan, mode)))};
}

Filler bilinear(std::int64_t extent) {
  return Filler{Filler::Kind::kBilinear, static_cast<float>(extent), 0};
}

float initial_value(const Filler& filler, std::uint64_t seed, std::uint64_t stream,
                    std::uint64_t index) {
  switch (filler.kind) {
    case Filler::Kind::kConstant:
      return filler.a;
    case Filler::Kind::kUniform:
      return uniform(filler, Philox::at(seed, stream, index / 4).words[index % 4]);
    case Filler::Kind::kGaussian: {
      if (!is_kept(filler, seed, stream, index)) return 0;
      const Philox draw = Philox::at(seed, stream, index / 4);
      const std::uint64_t first = index % 4 / 2 * 2;
      const NormalPair pair(draw.words[first], draw.words[first + 1]);
      return index % 2 == 0 ? pair.even(filler) : pair.odd(filler);
    }
    case Filler::Kind::kBilinear: {
      const auto extent = static_cast<std::uint64_t>(filler.a);
      return static_cast<float>(tent(index % extent, extent) *
                                tent(index / extent % extent, extent));
    }
  }
  return 0;
}

void fill(const Filler& filler, std::uint64_t seed, std::string_view name, std::uint64_t offset,
          std::span<float> out) {
  const std::uint64_t stream = name_stream(name.data(), name.size());
  const bool draws_all = filler.kind == Filler::Kind::kUniform ||
                         (filler.kind == Filler::Kind::kGaussian && filler.sparse < 0);
  std::size_t i = 0;
  while (i < out.size()) {
    // A draw gives four values.
    if (draws_all && (offset + i) % 4 == 0 && out.size() - i >= 4) {
      fill_four(filler, Philox::at(seed, stream, (offset + i) / 4), out.subspan(i).first<4>());
      i += 4;
    } else {
      out[i] = initial_value(filler, seed, stream, offset + i);
      ++i;
    }
  }
}

}  // namespace taut::math
