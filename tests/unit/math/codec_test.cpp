#include "common/math/codec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/float16.hpp"
#include "common/math/codec_elements.hpp"
#include "common/math/update_kernels.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::math;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::array kAll{
    Encoding{Codec::kFloat32},    Encoding{Codec::kFloat16},
    Encoding{Codec::kBfloat16},   Encoding{Codec::kInt8},
    Encoding{Codec::kOneBit},     Encoding{Codec::kTopK, 7},
    Encoding{Codec::kRandomK, 7}, Encoding{.codec = Codec::kLowRank, .rank = 3, .columns = 50}};
const Draw kDraw = draw_of(7, 3, 1, 2, 0);

std::vector<float> normal_values(std::size_t count, float scale = 1) {
  std::mt19937 random(count);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::byte> encoded(const Encoding& encoding, const std::vector<float>& values,
                               const Draw& draw = kDraw) {
  std::vector<std::byte> bytes(encoded_bytes(encoding, values.size()));
  std::vector<float> state(state_values(encoding, values.size()));
  encode(encoding, values, draw, bytes.data(), state);
  return bytes;
}

std::vector<float> decoded(const Encoding& encoding, const std::vector<std::byte>& bytes,
                           std::size_t count) {
  std::vector<float> values(count);
  decode(encoding, bytes.data(), count, 0, values);
  return values;
}

std::vector<float> through(Codec codec, const std::vector<float>& values,
                           const Draw& draw = kDraw) {
  return decoded({codec}, encoded({codec}, values, draw), values.size());
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

TEST_CASE("the bytes of an encoding are those of its formula", "[codec]") {
  for (const std::uint64_t n : {0UL, 1UL, 255UL, 256UL, 257UL, 262144UL, 1UL << 40U}) {
    CHECK(encoded_bytes({Codec::kFloat32}, n) == 4 * n);
    CHECK(encoded_bytes({Codec::kFloat16}, n) == 2 * n);
    CHECK(encoded_bytes({Codec::kBfloat16}, n) == 2 * n);
    CHECK(encoded_bytes({Codec::kInt8}, n) == n + 4 * ((n + 255) / 256));
  }
}

TEST_CASE("every half and every bfloat16 number is read as its value and written as itself",
          "[codec]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    const float upper = bfloat16_to_float(half);
    if (!same_bits(from_float16(half), value)) FAIL("half " << bits);
    if (!same_bits(from_bfloat16(half), upper)) FAIL("bfloat16 " << bits);
    if (std::isnan(value)) {
      if (!std::isnan(from_float16(to_float16(value)))) FAIL("NaN " << bits);
    } else if (to_float16(value) != half) {
      FAIL("half " << bits << " becomes " << to_float16(value));
    }
    if (std::isnan(upper)) {
      if (!std::isnan(from_bfloat16(to_bfloat16(upper)))) FAIL("NaN " << bits);
    } else if (to_bfloat16(upper) != half) {
      FAIL("bfloat16 " << bits << " becomes " << to_bfloat16(upper));
    }
  }
}

TEST_CASE("between two half numbers the nearer one is taken, in the middle the even one",
          "[codec]") {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float below = half_to_float(low);
    const float above = half_to_float(high);
    const float middle = below + (above - below) / 2;
    if (to_float16(middle) != (bits % 2 == 0 ? low : high)) FAIL("the middle after " << bits);
    if (to_float16(std::nextafter(middle, 0.0F)) != low) FAIL("just below it " << bits);
    if (to_float16(std::nextafter(middle, kInfinity)) != high) FAIL("just above it " << bits);
    if (to_float16(-middle) != (0x8000U | (bits % 2 == 0 ? low : high))) FAIL("negative " << bits);
  }
}

TEST_CASE("what is finite stays finite, and what is not stays not", "[codec]") {
  const std::vector<float> values{70000.0F, -1e30F, 3.4e38F, -3.4e38F, kInfinity, -kInfinity, kNan};
  const std::vector<float> half = through(Codec::kFloat16, values);
  CHECK(half[0] == 65504.0F);
  CHECK(half[1] == -65504.0F);
  const std::vector<float> upper = through(Codec::kBfloat16, values);
  CHECK(upper[2] == from_bfloat16(0x7f7f));
  CHECK(upper[3] == -from_bfloat16(0x7f7f));
  for (const auto& read : {half, upper}) {
    CHECK(read[4] == kInfinity);
    CHECK(read[5] == -kInfinity);
    CHECK(std::isnan(read[6]));
  }
}

TEST_CASE("a value comes back within the bound of its encoding", "[codec]") {
  for (const std::size_t count : {1UL, 255UL, 256UL, 257UL, 1000UL, 70'001UL}) {
    const std::vector<float> values = normal_values(count, 3);
    const auto exact = through(Codec::kFloat32, values);
    const auto half = through(Codec::kFloat16, values);
    const auto upper = through(Codec::kBfloat16, values);
    const auto bytes = through(Codec::kInt8, values);
    for (std::size_t begin = 0; begin < count; begin += kCodecBlock) {
      const std::size_t end = std::min(count, begin + kCodecBlock);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
      for (std::size_t i = begin; i < end; ++i) {
        CHECK(same_bits(exact[i], values[i]));
        CHECK(std::abs(half[i] - values[i]) <= std::abs(values[i]) * 0x1p-11F + 0x1p-25F);
        CHECK(std::abs(upper[i] - values[i]) <= std::abs(values[i]) * 0x1p-8F);
        // One step, and what the multiplication rounds.
        CHECK(std::abs(bytes[i] - values[i]) <= largest / 127.0F * 1.0001F);
      }
    }
  }
}

TEST_CASE("the mean of what INT8 makes of a value is the value", "[codec]") {
  constexpr int kClocks = 4000;
  const std::vector<float> values = normal_values(300);
  std::vector<double> sums(values.size(), 0.0);
  std::vector<double> squares(values.size(), 0.0);
  for (int clock = 0; clock < kClocks; ++clock) {
    const auto read =
        through(Codec::kInt8, values, draw_of(7, static_cast<std::uint64_t>(clock), 0, 0, 0));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = read[i] - values[i];
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  double all = 0;
  double deviation = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double spread = std::sqrt(squares[i] * kClocks);  // of the sum: its square is n times
    CHECK(std::abs(sums[i]) <= 5.5 * spread / std::sqrt(kClocks) + 1e-4);
    all += sums[i];
    deviation += squares[i];
  }
  // Of all together: a bias that no single value shows.
  CHECK(std::abs(all) <= 5 * std::sqrt(deviation));
}

TEST_CASE("the same clock, member and slice draw the same bits, and others draw others",
          "[codec]") {
  const std::vector<float> values = normal_values(1000);
  const auto first = encoded({Codec::kInt8}, values, draw_of(1, 5, 2, 3, 4));
  CHECK(encoded({Codec::kInt8}, values, draw_of(1, 5, 2, 3, 4)) == first);
  CHECK(encoded({Codec::kInt8}, values, draw_of(2, 5, 2, 3, 4)) != first);
  CHECK(encoded({Codec::kInt8}, values, draw_of(1, 6, 2, 3, 4)) != first);
  CHECK(encoded({Codec::kInt8}, values, draw_of(1, 5, 3, 3, 4)) != first);
  CHECK(encoded({Codec::kInt8}, values, draw_of(1, 5, 2, 4, 4)) != first);
  CHECK(encoded({Codec::kInt8}, values, draw_of(1, 5, 2, 3, 5)) != first);
}

TEST_CASE("blocks of INT8 that have no step arrive as zeros or as NaNs, and leave others alone",
          "[codec]") {
  std::vector<float> values = normal_values(1024);
  std::fill_n(values.begin(), 256, 0.0F);
  std::fill_n(values.begin() + 256, 256, 1e-38F);
  values[600] = kInfinity;
  const auto read = through(Codec::kInt8, values);
  for (std::size_t i = 0; i < 512; ++i) CHECK(read[i] == 0.0F);
  for (std::size_t i = 512; i < 768; ++i) CHECK(std::isnan(read[i]));
  for (std::size_t i = 768; i < 1024; ++i) CHECK(std::abs(read[i] - values[i]) < 0.1F);
}

TEST_CASE("any part is read as it is in the whole, at any address", "[codec]") {
  const std::vector<float> values = normal_values(5000);
  for (const Encoding& encoding : kAll) {
    const auto bytes = encoded(encoding, values);
    std::vector<std::byte> moved(bytes.size() + 1);
    std::ranges::copy(bytes, moved.begin() + 1);
    const auto whole = decoded(encoding, bytes, values.size());
    for (const std::size_t begin : {0UL, 256UL, 2048UL, 4864UL}) {
      std::vector<float> part(std::min<std::size_t>(300, values.size() - begin));
      decode(encoding, moved.data() + 1, values.size(), begin, part);
      CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(begin),
                       same_bits));
    }
  }
}

TEST_CASE("an application sums encoded gradients as it sums what they are read as", "[codec]") {
  const std::size_t count = 5000;
  UpdateRule rule;
  rule.rate.base = 0.1;
  const UpdateStep step = make_step(rule, 0, 1, 1, 1, 0, 2);
  for (const Encoding& encoding : kAll) {
    const auto first = encoded(encoding, normal_values(count), draw_of(1, 0, 0, 0, 0));
    const auto second = encoded(encoding, normal_values(count, 2), draw_of(1, 0, 1, 0, 0));
    const auto plain_first = decoded(encoding, first, count);
    const auto plain_second = decoded(encoding, second, count);
    const std::array<GradientView, 2> views{
        {{first.data(), 0.5F, encoding, count}, {second.data(), 1.0F, encoding, count}}};
    const std::array<GradientView, 2> plain{{{std::as_bytes(std::span(plain_first)).data(), 0.5F},
                                             {std::as_bytes(std::span(plain_second)).data(), 1}}};
    const std::vector<float> values = normal_values(count, 5);
    for (const std::size_t used : {1UL, 2UL}) {
      const std::size_t from = used == 1 ? 1 : 0;
      std::vector<float> out(count);
      std::vector<float> expected(count);
      apply_update(rule.kind, step, std::span(views).subspan(from), 0.5F, values, out, {});
      apply_update(rule.kind, step, std::span(plain).subspan(from), 0.5F, values, expected, {});
      CHECK(std::equal(out.begin(), out.end(), expected.begin(), same_bits));
    }
  }
}

TEST_CASE("what is not finite in an encoded gradient is found", "[codec]") {
  for (const Encoding& encoding : kAll) {
    std::vector<float> values = normal_values(5000);
    auto bytes = encoded(encoding, values);
    CHECK(all_finite(GradientView{bytes.data(), 1, encoding, values.size()}, values.size()));
    values[4321] = kNan;
    bytes = encoded(encoding, values);
    CHECK_FALSE(all_finite(GradientView{bytes.data(), 1, encoding, values.size()}, values.size()));
  }
}
