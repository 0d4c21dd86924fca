#include "cuda/kernels/encode.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

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
const std::array kDeviceEncodings{Encoding{Codec::kFloat16},    Encoding{Codec::kBfloat16},
                                  Encoding{Codec::kInt8},       Encoding{Codec::kOneBit},
                                  Encoding{Codec::kRandomK, 1}, Encoding{Codec::kRandomK, 7}};

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
  const Array<std::byte> scratch(static_cast<std::int64_t>(cuda::encode_scratch()));
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
    for (const Encoding& encoding : kDeviceEncodings) {
      REQUIRE(encoding.is_by_block());
      for (const std::int64_t count : {1, 7, 8, 9, 255, 256, 257, 1027}) {
        check_same(encoding, random_gradients(count), count % 2);
      }
      check_same(encoding, hard_gradients(1500));
    }
  });
}

TEST_CASE("a value that is not finite leaves the residual on the device as it is", "[kernels]") {
  for (const Encoding& encoding : kDeviceEncodings) {
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
