#include "common/math/codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/check.hpp"
#include "common/math/codec_bytes.hpp"
#include "common/math/codec_elements.hpp"
#include "common/math/feedback_codec.hpp"
#include "common/math/low_rank_codec.hpp"
#include "common/math/philox.hpp"
#include "common/math/vectorised.hpp"

namespace taut::math {
namespace {

constexpr std::size_t kBlockBytes = sizeof(float) + kCodecBlock;  // of int8
constexpr std::size_t kCalls = kCodecBlock / 8;  // of Philox, each for eight values
constexpr std::uint64_t kCodecKey = 0xc0dec0dec0dec0deULL;

TAUT_VECTORISED void encode_float16(const float* values, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) store(out, i, to_float16(values[i]));
}

TAUT_VECTORISED void decode_float16(const std::byte* bytes, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = from_float16(load<std::uint16_t>(bytes, i));
}

TAUT_VECTORISED void encode_bfloat16(const float* values, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) store(out, i, to_bfloat16(values[i]));
}

TAUT_VECTORISED void decode_bfloat16(const std::byte* bytes, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = from_bfloat16(load<std::uint16_t>(bytes, i));
}

using BlockWords = std::array<std::array<std::uint32_t, kCalls>, 4>;

/// Word w of call i is at [w][i]: calls in a row, so that several are drawn at a time.
TAUT_VECTORISED void draw_words(const Draw& draw, std::uint64_t first, BlockWords& words) {
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Philox drawn = Philox::at(draw.key, draw.stream, first + i);
    words[0][i] = drawn.words[0];
    words[1][i] = drawn.words[1];
    words[2][i] = drawn.words[2];
    words[3][i] = drawn.words[3];
  }
}

TAUT_VECTORISED std::uint32_t largest_magnitude(const float* values, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = float_bits(values[i]) & 0x7fffffffU;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

TAUT_VECTORISED void round_block(const float* values, float inverse, const BlockWords& words,
                                 std::int8_t* out) {
  for (std::size_t part = 0; part < 8; ++part) {
    const Int8Draw first = int8_draw(static_cast<std::uint32_t>(part * kCalls));
    const std::uint32_t* row = words[first.word].data();
    for (std::size_t i = 0; i < kCalls; ++i) {
      const std::size_t at = part * kCalls + i;
      out[at] = round_by_chance(values[at] * inverse, row[i] >> first.shift & 0xffffU);
    }
  }
}

void encode_int8(std::span<const float> values, const Draw& draw, std::byte* out) {
  alignas(64) std::array<float, kCodecBlock> last{};
  alignas(64) std::array<std::int8_t, kCodecBlock> rounded;
  alignas(64) BlockWords words;
  for (std::size_t begin = 0; begin < values.size(); begin += kCodecBlock) {
    const std::size_t count = std::min(kCodecBlock, values.size() - begin);
    const float* block = values.data() + begin;
    if (count < kCodecBlock) {
      std::copy_n(block, count, last.begin());
      block = last.data();
    }
    const Int8Steps steps = int8_steps(largest_magnitude(block, kCodecBlock));
    rounded.fill(0);
    if (steps.is_drawn) {
      draw_words(draw, draw.first + begin / 8, words);
      round_block(block, steps.inverse, words, rounded.data());
    }
    store(out, 0, steps.step);
    std::memcpy(out + sizeof(float), rounded.data(), count);
    out += sizeof(float) + count;
  }
}

TAUT_VECTORISED void scale_block(const std::byte* bytes, float step, std::size_t count,
                                 float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = step * static_cast<float>(load<std::int8_t>(bytes, i));
  }
}

void decode_int8(const std::byte* bytes, std::size_t begin, std::span<float> out) {
  bytes += begin / kCodecBlock * kBlockBytes;
  for (std::size_t i = 0; i < out.size(); i += kCodecBlock, bytes += kBlockBytes) {
    scale_block(bytes + sizeof(float), load<float>(bytes, 0), std::min(kCodecBlock, out.size() - i),
                out.data() + i);
  }
}

}  // namespace

std::uint64_t encoded_bytes(const Encoding& encoding, std::uint64_t count) {
  switch (encoding.codec) {
    case Codec::kFloat32:
      return sizeof(float) * count;
    case Codec::kFloat16:
    case Codec::kBfloat16:
      return sizeof(std::uint16_t) * count;
    case Codec::kInt8:
      return count + sizeof(float) * ((count + kCodecBlock - 1) / kCodecBlock);
    case Codec::kOneBit:
      return feedback::one_bit_bytes(count);
    case Codec::kTopK:
      return feedback::top_k_bytes(count, encoding.every);
    case Codec::kRandomK:
      return feedback::random_k_bytes(count, encoding.every);
    case Codec::kLowRank:
      return low_rank::bytes(low_rank::Shape(encoding, count));
  }
  TAUT_CHECK(false, "a codec");
  return 0;
}

std::uint64_t state_values(const Encoding& encoding, std::uint64_t count) {
  if (!encoding.has_residual()) return 0;
  if (encoding.codec != Codec::kLowRank) return count;
  return count + low_rank::Shape(encoding, count).factor_values();
}

std::string_view to_string(Codec codec) {
  constexpr std::array<std::string_view, kCodecs> kNames{
      "FLOAT32", "FP16", "BF16", "INT8", "ONE_BIT", "TOP_K", "RANDOM_K", "POWER_SGD"};
  return kNames.at(static_cast<std::size_t>(codec));
}

std::string to_string(const Encoding& encoding) {
  std::string text(to_string(encoding.codec));
  if (encoding.is_sparse()) text += ", one of " + std::to_string(encoding.every) + " values";
  if (encoding.codec == Codec::kLowRank) {
    text += " of rank " + std::to_string(encoding.rank) + " and " +
            std::to_string(encoding.columns) + " columns";
  }
  return text;
}

Draw draw_of(std::uint64_t seed, std::uint64_t clock, std::uint32_t slot, std::uint32_t table,
             std::uint32_t slice) {
  const std::uint64_t stream =
      std::uint64_t{slot} << 48U | std::uint64_t{table} << 32U | std::uint64_t{slice};
  return {seed ^ kCodecKey, stream, clock << 16U};
}

void encode(const Encoding& encoding, std::span<const float> values, const Draw& draw,
            std::byte* out, std::span<float> state) {
  TAUT_CHECK(state.size() == state_values(encoding, values.size()),
             "a state as the encoding has it");
  switch (encoding.codec) {
    case Codec::kFloat32:
      std::memcpy(out, values.data(), values.size_bytes());
      return;
    case Codec::kFloat16:
      return encode_float16(values.data(), values.size(), out);
    case Codec::kBfloat16:
      return encode_bfloat16(values.data(), values.size(), out);
    case Codec::kInt8:
      return encode_int8(values, draw, out);
    case Codec::kOneBit:
      return feedback::encode_one_bit(values, state, out);
    case Codec::kTopK:
      return feedback::encode_top_k(values, encoding.every, state, out);
    case Codec::kRandomK:
      return feedback::encode_random_k(values, encoding.every, state, draw, out);
    case Codec::kLowRank:
      return low_rank::encode(low_rank::Shape(encoding, values.size()), values, state, draw, out);
  }
}

bool is_well_formed(const Encoding& encoding, const std::byte* bytes, std::uint64_t count) {
  return encoding.codec != Codec::kTopK || feedback::is_top_k(bytes, count, encoding.every);
}

void decode(const Encoding& encoding, const std::byte* bytes, std::size_t count, std::size_t begin,
            std::span<float> out) {
  TAUT_CHECK(begin % kCodecBlock == 0, "decoding starts with a block");
  if (out.empty()) return;
  switch (encoding.codec) {
    case Codec::kFloat32:
      std::memcpy(out.data(), bytes + begin * sizeof(float), out.size_bytes());
      return;
    case Codec::kFloat16:
      return decode_float16(bytes + begin * sizeof(std::uint16_t), out.size(), out.data());
    case Codec::kBfloat16:
      return decode_bfloat16(bytes + begin * sizeof(std::uint16_t), out.size(), out.data());
    case Codec::kInt8:
      return decode_int8(bytes, begin, out);
    case Codec::kOneBit:
      return feedback::decode_one_bit(bytes, begin, out);
    case Codec::kTopK:
      return feedback::decode_top_k(bytes, count, encoding.every, begin, out);
    case Codec::kRandomK:
      return feedback::decode_random_k(bytes, count, encoding.every, begin, out);
    case Codec::kLowRank:
      return low_rank::decode(low_rank::Shape(encoding, count), bytes, begin, out);
  }
}

}  // namespace taut::math
