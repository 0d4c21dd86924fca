#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "common/math/codec.hpp"
#include "common/math/codec_bytes.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::math;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::array kFeedback{Encoding{Codec::kOneBit}, Encoding{Codec::kTopK, 10},
                           Encoding{Codec::kRandomK, 10}};

std::vector<float> normal_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// What is read of an update; `residual` is the writer's.
std::vector<float> through(const Encoding& encoding, const std::vector<float>& values,
                           std::vector<float>& residual, std::uint64_t clock = 0) {
  std::vector<std::byte> bytes(encoded_bytes(encoding, values.size()));
  encode(encoding, values, draw_of(7, clock, 1, 2, 3), bytes.data(), residual);
  REQUIRE(is_well_formed(encoding, bytes.data(), values.size()));
  std::vector<float> read(values.size());
  decode(encoding, bytes.data(), values.size(), 0, read);
  return read;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("the bytes of an encoding with feedback are those of its formula", "[codec]") {
  for (const std::uint64_t n : {0UL, 1UL, 255UL, 256UL, 257UL, 65536UL, 65537UL, 262144UL}) {
    CHECK(encoded_bytes({Codec::kOneBit}, n) == (n + 7) / 8 + 8 * ((n + 255) / 256));
    for (const std::uint32_t every : {2U, 100U, 1000U}) {
      const std::uint64_t kept = (n + every - 1) / every;
      CHECK(encoded_bytes({Codec::kTopK, every}, n) == 6 * kept + 4 * ((n + 65535) / 65536));
      CHECK(encoded_bytes({Codec::kRandomK, every}, n) == 4 * kept + 8);
    }
  }
}

TEST_CASE("what is read of an update and what is left of it add up to it", "[codec]") {
  for (const Encoding& encoding : kFeedback) {
    for (const std::size_t count : {1UL, 9UL, 255UL, 257UL, 70'001UL}) {
      const std::vector<float> values = normal_values(count, 3);
      const std::vector<float> before = normal_values(count, 4);
      std::vector<float> residual = before;
      const auto read = through(encoding, values, residual);
      bool all = true;
      for (std::size_t i = 0; i < count; ++i) {
        const float sum = values[i] + before[i];
        all = all && std::abs(read[i] + residual[i] - sum) <= 1e-6F * (1 + std::abs(sum));
      }
      CHECK(all);
    }
  }
}

TEST_CASE("of many updates, all but a residual that stays bounded has arrived", "[codec]") {
  constexpr std::size_t kCount = 1000;
  constexpr std::uint64_t kClocks = 8000;
  const std::vector<float> gradient = normal_values(kCount, 5);
  for (const Encoding& encoding : kFeedback) {
    std::vector<float> residual(kCount);
    std::vector<double> arrived(kCount);
    std::array<double, 2> largest{};  // of its squares, in each half of the clocks
    for (std::uint64_t clock = 0; clock < kClocks; ++clock) {
      const auto read = through(encoding, gradient, residual, clock);
      double squares = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        arrived[i] += read[i];
        squares += residual[i] * residual[i];
      }
      double& here = largest[2 * clock / kClocks];
      here = std::max(here, squares);
    }
    CHECK(largest[1] <= 1.5 * largest[0]);
    bool all = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double pushed = static_cast<double>(kClocks) * gradient[i];
      all = all && std::abs(arrived[i] + residual[i] - pushed) <= 0.05 + 1e-5 * std::abs(pushed);
    }
    CHECK(all);
  }
}

TEST_CASE("ONE_BIT reads each value of a block as the mean of those with its sign", "[codec]") {
  std::vector<float> values{1, -2, 3, 0, -4, 8};
  std::vector<float> residual(values.size());
  const auto read = through({Codec::kOneBit}, values, residual);
  CHECK(read == std::vector<float>{3, -3, 3, 3, -3, 3});
  CHECK(residual == std::vector<float>{-2, 1, 0, -3, -1, 5});
  // Each block has its own means.
  values = std::vector<float>(300, 2);
  std::fill(values.begin() + 256, values.end(), -5.0F);
  residual.assign(300, 0);
  CHECK(through({Codec::kOneBit}, values, residual) == values);
}

TEST_CASE("TOP_K sends the largest values, and of equal ones the first", "[codec]") {
  std::vector<float> values(100, 0.5F);
  values[70] = -9;
  values[7] = 3;
  std::vector<float> residual(100);
  const auto read = through({Codec::kTopK, 25}, values, residual);
  std::vector<float> expected(100, 0.0F);
  expected[7] = 3;
  expected[70] = -9;
  expected[0] = expected[1] = 0.5F;
  CHECK(read == expected);
  CHECK(residual[7] == 0);
  CHECK(residual[2] == 0.5F);

  // Against sorting, where places need more than 16 bits.
  const std::vector<float> many = normal_values(200'000, 6);
  residual.assign(many.size(), 0);
  const auto sent = through({Codec::kTopK, 100}, many, residual);
  std::vector<float> magnitudes(many.size());
  std::ranges::transform(many, magnitudes.begin(), [](float value) { return std::abs(value); });
  std::ranges::sort(magnitudes, std::greater());
  bool all = true;
  for (std::size_t i = 0; i < many.size(); ++i) {
    const bool is_large = std::abs(many[i]) >= magnitudes[1999];
    all = all && sent[i] == (is_large ? many[i] : 0.0F);
  }
  CHECK(all);
}

TEST_CASE("RANDOM_K sends one value of each stretch, drawn again each clock", "[codec]") {
  const std::vector<float> values(1003, 1.0F);
  std::vector<int> chosen(values.size());
  constexpr int kClocks = 2000;
  for (int clock = 0; clock < kClocks; ++clock) {
    std::vector<float> residual(values.size());
    const auto read =
        through({Codec::kRandomK, 10}, values, residual, static_cast<std::uint64_t>(clock));
    bool one_each = true;
    for (std::size_t begin = 0; begin < values.size(); begin += 10) {
      int here = 0;
      for (std::size_t i = begin; i < std::min(values.size(), begin + 10); ++i) {
        here += read[i] != 0 ? 1 : 0;
        chosen[i] += read[i] != 0 ? 1 : 0;
      }
      one_each = one_each && here == 1;
    }
    CHECK(one_each);
  }
  // 200 of 2000 each, and a third of them in the last stretch of three.
  for (std::size_t i = 0; i < 1000; ++i) CHECK(std::abs(chosen[i] - 200) < 75);
  for (std::size_t i = 1000; i < 1003; ++i) CHECK(std::abs(chosen[i] - 667) < 110);
}

TEST_CASE("the same residual, clock, member and slice draw the same bytes", "[codec]") {
  const std::vector<float> values = normal_values(5000, 8);
  for (const Encoding& encoding : kFeedback) {
    std::vector<float> once(values.size());
    std::vector<float> again(values.size());
    CHECK(same_bits(through(encoding, values, once, 4), through(encoding, values, again, 4)));
    CHECK(same_bits(once, again));
  }
  std::vector<float> first(values.size());
  std::vector<float> other(values.size());
  CHECK_FALSE(same_bits(through({Codec::kRandomK, 10}, values, first, 4),
                        through({Codec::kRandomK, 10}, values, other, 5)));
}

TEST_CASE("an update that is not finite is read as no numbers and leaves its residual", "[codec]") {
  for (const Encoding& encoding : kFeedback) {
    for (const float bad :
         {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
      std::vector<float> values = normal_values(1000, 9);
      values[777] = bad;
      std::vector<float> residual = normal_values(1000, 10);
      residual[777] = 3e38F;  // with which even a finite value becomes infinite
      const std::vector<float> before = residual;
      const auto read = through(encoding, values, residual);
      CHECK(same_bits(residual, before));
      CHECK(std::ranges::any_of(read, [](float value) { return std::isnan(value); }));
      CHECK(std::ranges::all_of(read, [](float value) { return std::isnan(value) || value == 0; }));
    }
  }
}

TEST_CASE("places that do not ascend or are not the slice's are found", "[codec]") {
  const Encoding encoding{Codec::kTopK, 10};
  const std::size_t count = 70'001;
  std::vector<float> residual(count);
  std::vector<std::byte> bytes(encoded_bytes(encoding, count));
  encode(encoding, normal_values(count, 11), draw_of(1, 0, 0, 0, 0), bytes.data(), residual);
  CHECK(is_well_formed(encoding, bytes.data(), count));
  const std::size_t places = 2 * sizeof(std::uint32_t);  // after the ends of two blocks
  const auto changed = [&](std::size_t at, std::uint32_t value, std::size_t size) {
    std::vector<std::byte> wrong = bytes;
    std::memcpy(wrong.data() + at, &value, size);
    std::vector<float> read(count);
    decode(encoding, wrong.data(), count, 0, read);  // no harm
    return is_well_formed(encoding, wrong.data(), count);
  };
  CHECK_FALSE(changed(places, 65535, 2));  // then no other ascends
  CHECK_FALSE(changed(places + 2, load<std::uint16_t>(bytes.data() + places, 0), 2));  // twice
  CHECK_FALSE(changed(places + 2 * 7001 - 2, 65535, 2));  // 4,465 values are there
  CHECK_FALSE(changed(0, 7002, 4));                       // more than there are
  CHECK_FALSE(changed(4, 7000, 4));                       // fewer
  CHECK_FALSE(changed(4, 0, 4));
  CHECK_FALSE(changed(0, std::numeric_limits<std::uint32_t>::max(), 4));
}
