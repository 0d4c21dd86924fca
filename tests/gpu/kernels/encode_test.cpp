#include "cuda/kernels/encoding/encode.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/math/momentum_correction.hpp"
#include "cuda/kernels/encoding/velocity.hpp"
#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using math::Codec;
using math::Encoding;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kClocks = 3;

Encoding low_rank(std::uint32_t rank, std::uint32_t columns) {
  return {.codec = Codec::kLowRank, .rank = rank, .columns = columns};
}

const std::vector<Encoding> kEncodings{
    {Codec::kFloat16},    {Codec::kBfloat16},   {Codec::kInt8},    {Codec::kOneBit},
    {Codec::kRandomK, 1}, {Codec::kRandomK, 7}, {Codec::kTopK, 1}, {Codec::kTopK, 7},
    {Codec::kTopK, 300},  low_rank(1, 20),      low_rank(3, 50),   low_rank(4, 3)};

/// What a member sends of a slice at some clocks, and what it has kept then.
struct Sent {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::uint32_t> state;  // as bits: a NaN is equal to itself
};

using Gradients = std::array<std::vector<float>, kClocks>;

math::Draw draw_at(std::int64_t clock) {
  return math::draw_of(7, static_cast<std::uint64_t>(clock), 1, 2, 3);
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

Sent on_host(const Encoding& encoding, const Gradients& gradients) {
  const std::size_t count = gradients[0].size();
  Sent sent;
  std::vector<float> state(math::state_values(encoding, count));
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    auto& bytes = sent.bytes.emplace_back(math::encoded_bytes(encoding, count));
    math::encode(encoding, gradients[place(clock)], draw_at(clock), bytes.data(), state);
  }
  sent.state = bits_of(state);
  return sent;
}

/// shift  of the values in their memory
Sent on_device(const Encoding& encoding, const Gradients& gradients, std::int64_t shift) {
  const std::size_t count = gradients[0].size();
  const TestStream stream;
  Sent sent;
  const std::size_t kept = math::state_values(encoding, count);
  const Array<float> state(std::vector<float>(std::max<std::size_t>(kept, 1)), shift);
  const Array<std::byte> scratch(
      static_cast<std::int64_t>(cuda::encode_scratch(encoding, static_cast<std::int64_t>(count))));
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    const Array<float> values(gradients[place(clock)], shift);
    const Array<std::byte> out(static_cast<std::int64_t>(math::encoded_bytes(encoding, count)));
    cuda::encode(stream, encoding, draw_at(clock),
                 {values.at(), static_cast<std::int64_t>(count), out.at(), state.at()},
                 scratch.at());
    sent.bytes.push_back(out.values(stream));
  }
  sent.state = bits_of(state.values(stream));
  sent.state.resize(kept);
  return sent;
}

void check_same(const Encoding& encoding, const Gradients& gradients, std::int64_t shift = 0) {
  const Sent expected = on_host(encoding, gradients);
  const Sent actual = on_device(encoding, gradients, shift);
  CAPTURE(math::to_string(encoding), gradients[0].size(), shift);
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    CAPTURE(clock);
    CHECK(actual.bytes[place(clock)] == expected.bytes[place(clock)]);
  }
  CHECK(actual.state == expected.state);
}

Gradients random_gradients(std::int64_t count) {
  Gradients gradients;
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    gradients[place(clock)] = random_floats(count, 3 + static_cast<unsigned>(clock));
  }
  return gradients;
}

/// Numbers of all sizes, those at which formats end, and those that are the same in size.
Gradients hard_gradients(std::int64_t count) {
  constexpr std::array kHard{
      0.0F,   -0.0F,   1.0F,   -1.0F,    65504.0F,       65520.0F,   -1e5F,         6e-8F,  2.9e-8F,
      1e-10F, -1e-39F, 1e-45F, -3.3e38F, 1.00048828125F, 1.0039063F, -1.001953125F, 7e-31F, 8e-31F};
  Gradients gradients = random_gradients(count);
  for (auto& values : gradients) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i % 3 == 0 ? kHard[i / 3 % kHard.size()]
                             : std::ldexp(values[i], static_cast<int>(i % 60) - 30);
    }
  }
  // Whole blocks of one number, and of numbers that are too small for a step.
  for (std::size_t i = 0; i < gradients[1].size(); ++i) {
    if (i / 256 % 4 == 1) gradients[1][i] = -0.5F;
    if (i / 256 % 4 == 2) gradients[1][i] = 1e-35F;
  }
  return gradients;
}

}  // namespace

TEST_CASE("updates are encoded on the device with the bytes and residuals of the host",
          "[kernels]") {
  on_each_schedule([] {
    for (const Encoding& encoding : kEncodings) {
      for (const std::int64_t count : {1, 7, 8, 9, 255, 256, 257, 1027}) {
        check_same(encoding, random_gradients(count), count % 2);
      }
      check_same(encoding, hard_gradients(1500));
    }
  });
}

TEST_CASE("a value that is not finite leaves the residual on the device as it is", "[kernels]") {
  for (const Encoding& encoding : kEncodings) {
    for (const float bad : {kInfinity, -kInfinity, kNan}) {
      Gradients gradients = random_gradients(700);
      gradients[1][600] = bad;
      check_same(encoding, gradients);
    }
    // Both are finite, and their sum is not.
    Gradients gradients = random_gradients(300);
    gradients[0][299] = gradients[1][299] = gradients[2][299] = 3e38F;
    check_same(encoding, gradients);
  }
}

TEST_CASE("the largest values of several blocks of places are written down as on the host",
          "[kernels]") {
  for (const std::int64_t count : {65'536, 65'537, 131'072 + 1'000}) {
    check_same({Codec::kTopK, 100}, random_gradients(count));
    // Many of one magnitude, of which the first ones are kept.
    Gradients gradients = random_gradients(count);
    for (auto& values : gradients) {
      for (float& value : values) value = std::copysign(std::round(std::abs(value) * 4), value);
    }
    check_same({Codec::kTopK, 5}, gradients);
    gradients[1][static_cast<std::size_t>(count) - 1] = kNan;
    check_same({Codec::kTopK, 100}, gradients);
  }
}

TEST_CASE("factors of long columns and of rows that depend on each other are those of the host",
          "[kernels]") {
  check_same(low_rank(2, 5), random_gradients(5 * 1'100 + 3));
  check_same(low_rank(2, 700), random_gradients(700 * 9 + 1));
  Gradients gradients = random_gradients(400);
  // A matrix of rank 1, and one that is 0.
  for (std::size_t i = 0; i < 400; ++i) gradients[1][i] = gradients[1][i % 20];
  check_same(low_rank(3, 20), gradients);
  gradients[0].assign(400, 0.0F);
  check_same(low_rank(3, 20), gradients);
  // Its factors overflow.
  gradients[1].assign(400, 3e38F);
  check_same(low_rank(3, 20), gradients);
}

TEST_CASE("velocities on the device are those of the host", "[kernels]") {
  constexpr std::int64_t kCount = 700;
  on_each_schedule([] {
    const TestStream stream;
    const Array<float> velocity(std::vector<float>(kCount, 0.0F));
    const Array<std::byte> scratch(static_cast<std::int64_t>(cuda::velocity_scratch()));
    std::vector<float> expected(kCount);
    for (const float bad : {1.0F, kInfinity, kNan, 2.0F}) {
      std::vector<float> gradient = random_floats(kCount, 5);
      gradient[650] = bad;
      const Array<float> moved(gradient);
      cuda::advance_velocity(stream, {0.9F, 0.37F}, kCount, moved.at(), velocity.at(),
                             scratch.at());
      math::advance_velocity(0.9F, 0.37F, gradient, expected, gradient.data());
      // NaNs differ by processor, and none is kept or sent.
      std::vector<float> on_device = moved.values(stream);
      for (auto* const values : {&on_device, &gradient}) {
        for (float& value : *values) value = std::isnan(value) ? kNan : value;
      }
      CHECK(bits_of(on_device) == bits_of(gradient));
      CHECK(bits_of(velocity.values(stream)) == bits_of(expected));
      std::vector<float> residual = random_floats(kCount, 6);
      for (std::size_t i = 0; i < residual.size(); i += 3) residual[i] = i % 2 == 0 ? 0.0F : -0.0F;
      const Array<float> left(residual);
      cuda::clear_sent_velocities(stream, kCount, left.at(), velocity.at());
      math::clear_sent_velocities(residual, expected.data());
      CHECK(bits_of(velocity.values(stream)) == bits_of(expected));
    }
  });
}
