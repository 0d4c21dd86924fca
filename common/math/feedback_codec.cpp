#include "common/math/feedback_codec.hpp"

#include <algorithm>
#include <array>

#include "common/check.hpp"
#include "common/math/codec_bytes.hpp"
#include "common/math/codec_elements.hpp"
#include "common/math/philox.hpp"
#include "common/math/vectorised.hpp"

namespace taut::math::feedback {
namespace {

constexpr std::size_t kMeansBytes = 2 * sizeof(float);
constexpr std::size_t kOneBitBytes = kMeansBytes + kCodecBlock / 8;  // of a whole block

TAUT_VECTORISED bool add_finite(const float* values, std::size_t count, float* residual) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= is_not_finite(values[i] + residual[i]) ? 1U : 0U;
  }
  if (found != 0) return false;
  for (std::size_t i = 0; i < count; ++i) residual[i] += values[i];
  return true;
}

/// The means of the first `count` values of a block, whose rest is zeros.
TAUT_VECTORISED OneBitMeans means_of(const float* values, std::size_t count) {
  std::array<double, kMeanLanes> below{};
  std::array<double, kMeanLanes> rest{};
  std::array<std::int32_t, kMeanLanes> negative{};
  for (std::size_t i = 0; i < kCodecBlock; i += kMeanLanes) {
    for (std::size_t lane = 0; lane < kMeanLanes; ++lane) {
      const float value = values[i + lane];
      below[lane] += value < 0 ? value : 0.0F;
      rest[lane] += value < 0 ? 0.0F : value;
      negative[lane] += value < 0 ? 1 : 0;
    }
  }
  double below_sum = 0;
  double rest_sum = 0;
  std::int32_t negatives = 0;
  for (std::size_t lane = 0; lane < kMeanLanes; ++lane) {
    below_sum += below[lane];
    rest_sum += rest[lane];
    negatives += negative[lane];
  }
  return one_bit_means(below_sum, rest_sum, negatives, static_cast<std::int32_t>(count));
}

/// Writes a block's signs as bits, and subtracts from its values what they are decoded as.
TAUT_VECTORISED void split_block(float* values, const OneBitMeans& means, std::uint8_t* bits) {
  for (std::size_t byte = 0; byte < kCodecBlock / 8; ++byte) {
    std::uint32_t of_eight = 0;
    for (std::uint32_t i = 0; i < 8; ++i) {
      of_eight |= values[8 * byte + i] < 0 ? 0U : 1U << i;
    }
    bits[byte] = static_cast<std::uint8_t>(of_eight);
  }
  for (std::size_t i = 0; i < kCodecBlock; ++i) {
    values[i] -= read_as(means, values[i]);
  }
}

TAUT_VECTORISED void read_signs(const std::byte* bits, const OneBitMeans& means, std::size_t count,
                                float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_rest = (std::to_integer<std::uint32_t>(bits[i / 8]) >> i % 8 & 1U) != 0;
    out[i] = is_rest ? means.rest : means.below;
  }
}

/// The smallest magnitude among the `kept` values of the largest magnitudes.
/// more  set to how many values have a larger one
std::uint32_t magnitude_at(std::span<const float> values, std::uint64_t kept, std::uint64_t& more) {
  std::uint32_t prefix = 0;
  more = 0;
  for (const MagnitudeDigit& one : kMagnitudeDigits) {
    std::array<std::uint32_t, kMagnitudeCounts> counts{};
    for (const float value : values) {
      const std::uint32_t magnitude = magnitude_bits(value);
      if (magnitude >> one.above == prefix >> one.above) {
        ++counts[magnitude >> one.shift & one.mask];
      }
    }
    std::uint32_t digit = one.mask;
    while (more + counts[digit] < kept) more += counts[digit--];
    prefix |= digit << one.shift;
  }
  return prefix;
}

/// The place that RANDOM_K has drawn from each stretch.
class Choices {
 public:
  Choices(std::uint64_t key, std::size_t count, std::uint32_t every)
      : key_(key), count_(count), every_(every) {}
  /// REQUIRES: calls pass consecutive numbers.
  std::size_t of(std::size_t stretch) {
    if (stretch % 4 == 0 || !has_words_) words_ = Philox::at(key_, 0, stretch / 4);
    has_words_ = true;
    const std::size_t begin = stretch * every_;
    const std::uint64_t length = std::min<std::uint64_t>(every_, count_ - begin);
    return place_in_stretch(begin, length, words_.words[stretch % 4]);
  }

 private:
  std::uint64_t key_;
  std::size_t count_;
  std::uint64_t every_;
  Philox words_{};
  bool has_words_ = false;
};

/// Calls take(place - begin, value) for the kept values of a part, in order.
template <class Take>
void each_top_k(const std::byte* bytes, std::size_t count, std::uint32_t every, std::size_t begin,
                std::size_t length, Take&& take) {
  const TopKLayout parts(count, every);
  const std::size_t end = begin + length;
  const auto end_of = [&](std::size_t block) {
    return std::min<std::uint64_t>(load<std::uint32_t>(bytes, block), parts.kept);
  };
  const auto place_of = [&](std::uint64_t i) {
    return load<std::uint16_t>(bytes + parts.places, i);
  };
  for (std::size_t block = begin / kPlaces; block < parts.blocks && block * kPlaces < end;
       ++block) {
    const std::size_t first = block * kPlaces;
    std::uint64_t low = block == 0 ? 0 : end_of(block - 1);
    const std::uint64_t stop = end_of(block);
    // Finds the first place from `begin` on.
    for (std::uint64_t high = stop; low < high;) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (first + place_of(middle) < begin) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    for (; low < stop; ++low) {
      const std::size_t place = first + place_of(low);
      if (place < begin || place >= end) break;
      take(place - begin, load<float>(bytes + parts.values, low));
    }
  }
}

/// As each_top_k().
template <class Take>
void each_random_k(const std::byte* bytes, std::size_t count, std::uint32_t every,
                   std::size_t begin, std::size_t length, Take&& take) {
  if (length == 0) return;
  Choices choices(load<std::uint64_t>(bytes, 0), count, every);
  bytes += sizeof(std::uint64_t);
  const std::size_t end = begin + length;
  for (std::size_t i = begin / every; i * every < end; ++i) {
    const std::size_t place = choices.of(i);
    if (place >= begin && place < end) take(place - begin, load<float>(bytes, i));
  }
}

struct Addition {
  float scale;
  std::span<float> sum;
  bool same_bits = true;

  void operator()(std::size_t i, float value) {
    constexpr std::uint32_t kNegativeZero = 0x80000000;
    const float product = scale * value;
    same_bits = same_bits && float_bits(product) != kNegativeZero;
    sum[i] += product;
  }
};

}  // namespace

bool add_up(std::span<const float> values, float* residual) {
  return add_finite(values.data(), values.size(), residual);
}

std::uint64_t kept_of(std::uint64_t count, std::uint32_t every) {
  return (count + every - 1) / every;
}

TopKLayout::TopKLayout(std::uint64_t count, std::uint32_t every)
    : blocks((count + kPlaces - 1) / kPlaces),
      kept(kept_of(count, every)),
      places(blocks * sizeof(std::uint32_t)),
      values(places + kept * sizeof(std::uint16_t)) {}

std::uint64_t one_bit_bytes(std::uint64_t count) {
  return (count + 7) / 8 + kMeansBytes * ((count + kCodecBlock - 1) / kCodecBlock);
}

std::uint64_t top_k_bytes(std::uint64_t count, std::uint32_t every) {
  const TopKLayout parts(count, every);
  return parts.values + parts.kept * sizeof(float);
}

std::uint64_t random_k_bytes(std::uint64_t count, std::uint32_t every) {
  return sizeof(std::uint64_t) + kept_of(count, every) * sizeof(float);
}

void encode_one_bit(std::span<const float> values, std::span<float> residual, std::byte* out) {
  const bool is_finite = add_up(values, residual.data());
  alignas(64) std::array<float, kCodecBlock> last{};
  std::array<std::uint8_t, kCodecBlock / 8> bits{};
  for (std::size_t begin = 0; begin < values.size(); begin += kCodecBlock) {
    const std::size_t count = std::min(kCodecBlock, values.size() - begin);
    float* block = residual.data() + begin;
    OneBitMeans means{no_number(), no_number()};
    if (is_finite) {
      if (count < kCodecBlock) block = std::copy_n(block, count, last.begin()) - count;
      means = means_of(block, count);
      split_block(block, means, bits.data());
      if (count < kCodecBlock) std::copy_n(block, count, residual.data() + begin);
    }
    store(out, 0, means.below);
    store(out, 1, means.rest);
    std::memcpy(out + kMeansBytes, bits.data(), (count + 7) / 8);
    out += kMeansBytes + (count + 7) / 8;
  }
}

void decode_one_bit(const std::byte* bytes, std::size_t begin, std::span<float> out) {
  bytes += begin / kCodecBlock * kOneBitBytes;
  for (std::size_t i = 0; i < out.size(); i += kCodecBlock, bytes += kOneBitBytes) {
    const OneBitMeans means{load<float>(bytes, 0), load<float>(bytes, 1)};
    read_signs(bytes + kMeansBytes, means, std::min(kCodecBlock, out.size() - i), out.data() + i);
  }
}

void encode_top_k(std::span<const float> values, std::uint32_t every, std::span<float> residual,
                  std::byte* out) {
  const TopKLayout parts(values.size(), every);
  if (values.empty()) return;
  const bool is_finite = add_up(values, residual.data());
  std::uint64_t more = 0;
  const std::uint32_t least = is_finite ? magnitude_at(residual, parts.kept, more) : 0;
  std::uint64_t equal = parts.kept - more;  // how many of magnitude `least` are kept
  std::size_t next = 0;
  const auto keep = [&](std::size_t place, float value) {
    store(out + parts.places, next, static_cast<std::uint16_t>(place % kPlaces));
    store(out + parts.values, next, value);
    ++next;
  };
  for (std::size_t block = 0; block < parts.blocks; ++block) {
    const std::size_t end = std::min(values.size(), (block + 1) * kPlaces);
    for (std::size_t i = block * kPlaces; i < end; ++i) {
      if (!is_finite) {
        if (i % every == 0) keep(i, no_number());
        continue;
      }
      const std::uint32_t magnitude = magnitude_bits(residual[i]);
      if (magnitude < least || (magnitude == least && equal == 0)) continue;
      if (magnitude == least) --equal;
      keep(i, residual[i]);
      residual[i] = 0;
    }
    store(out, block, static_cast<std::uint32_t>(next));
  }
}

void decode_top_k(const std::byte* bytes, std::size_t count, std::uint32_t every, std::size_t begin,
                  std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  each_top_k(bytes, count, every, begin, out.size(),
             [&](std::size_t i, float value) { out[i] = value; });
}

bool add_top_k(const std::byte* bytes, std::size_t count, std::uint32_t every, std::size_t begin,
               float scale, std::span<float> sum) {
  Addition addition{scale, sum};
  each_top_k(bytes, count, every, begin, sum.size(), addition);
  return addition.same_bits;
}

bool is_top_k(const std::byte* bytes, std::uint64_t count, std::uint32_t every) {
  const TopKLayout parts(count, every);
  std::uint64_t next = 0;
  for (std::uint64_t block = 0; block < parts.blocks; ++block) {
    const std::uint64_t stop = load<std::uint32_t>(bytes, block);
    if (stop < next || stop > parts.kept) return false;
    const std::uint64_t length = std::min<std::uint64_t>(kPlaces, count - block * kPlaces);
    std::int64_t before = -1;
    for (; next < stop; ++next) {
      const auto place = static_cast<std::int64_t>(load<std::uint16_t>(bytes + parts.places, next));
      if (place <= before || static_cast<std::uint64_t>(place) >= length) return false;
      before = place;
    }
  }
  return next == parts.kept;
}

void encode_random_k(std::span<const float> values, std::uint32_t every, std::span<float> residual,
                     const Draw& draw, std::byte* out) {
  const bool is_finite = add_up(values, residual.data());
  const Philox drawn = Philox::at(draw.key, draw.stream, draw.first);
  const std::uint64_t key = std::uint64_t{drawn.words[1]} << 32U | drawn.words[0];
  store(out, 0, key);
  out += sizeof key;
  Choices choices(key, values.size(), every);
  for (std::size_t i = 0; i < kept_of(values.size(), every); ++i) {
    float& chosen = residual[choices.of(i)];
    store(out, i, is_finite ? chosen : no_number());
    if (is_finite) chosen = 0;
  }
}

void decode_random_k(const std::byte* bytes, std::size_t count, std::uint32_t every,
                     std::size_t begin, std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  each_random_k(bytes, count, every, begin, out.size(),
                [&](std::size_t i, float value) { out[i] = value; });
}

bool add_random_k(const std::byte* bytes, std::size_t count, std::uint32_t every, std::size_t begin,
                  float scale, std::span<float> sum) {
  Addition addition{scale, sum};
  each_random_k(bytes, count, every, begin, sum.size(), addition);
  return addition.same_bits;
}

}  // namespace taut::math::feedback
