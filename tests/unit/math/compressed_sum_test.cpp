#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::math;

namespace {

constexpr std::size_t kCount = 70'000;  // more than a block of TOP_K
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// An update, and what it is read as.
struct Update {
  Encoding encoding;
  float scale = 1;
  std::vector<std::byte> bytes;
  std::vector<float> plain;
};

Update update_of(const Encoding& encoding, float scale, const std::vector<float>& values,
                 std::uint32_t slot) {
  Update update{encoding, scale, std::vector<std::byte>(encoded_bytes(encoding, values.size())),
                std::vector<float>(values.size())};
  std::vector<float> state(state_values(encoding, values.size()));
  encode(encoding, values, draw_of(1, 2, slot, 0, 0), update.bytes.data(), state);
  decode(encoding, update.bytes.data(), values.size(), 0, update.plain);
  return update;
}

std::vector<float> normal_values(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(kCount);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> sum_of(const std::vector<GradientView>& views) {
  std::vector<float> sum(kCount, 77);
  for (std::size_t begin = 0; begin < kCount; begin += kGradientBlock) {
    const std::size_t count = std::min(kGradientBlock, kCount - begin);
    sum_gradients(views, begin, std::span(sum).subspan(begin, count));
  }
  return sum;
}

/// Whether encoded updates have the sum of what they are read as, in every bit.
bool sums_alike(const std::vector<Update>& updates) {
  std::vector<GradientView> encoded;
  std::vector<GradientView> plain;
  for (const Update& one : updates) {
    encoded.push_back({one.bytes.data(), one.scale, one.encoding, kCount});
    plain.push_back({std::as_bytes(std::span(one.plain)).data(), one.scale, {}, kCount});
  }
  const std::vector<float> found = sum_of(encoded);
  const std::vector<float> expected = sum_of(plain);
  return std::ranges::equal(found, expected, [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

const std::array kCompressed{Encoding{Codec::kTopK, 100}, Encoding{Codec::kRandomK, 100},
                             Encoding{.codec = Codec::kLowRank, .rank = 3, .columns = 300}};

}  // namespace

TEST_CASE("three members' compressed updates are summed with the bits of decoded ones", "[codec]") {
  for (const Encoding& encoding : kCompressed) {
    std::vector<Update> updates;
    for (const float scale : {1.0F, 0.25F, 0.3F}) {
      const auto slot = static_cast<std::uint32_t>(updates.size());
      updates.push_back(update_of(encoding, scale, normal_values(slot + 1), slot));
    }
    CHECK(sums_alike(updates));
    updates.resize(1);
    CHECK(sums_alike(updates));
  }
}

TEST_CASE("sums of sparse updates keep the bits of factors that are 0, below 0 or no number",
          "[codec]") {
  for (const Encoding& encoding : kCompressed) {
    for (const float scale : {0.0F, -0.5F, kNan}) {
      std::vector<Update> updates{update_of(encoding, scale, normal_values(1), 0),
                                  update_of(encoding, 1, normal_values(2), 1)};
      CHECK(sums_alike(updates));
      std::swap(updates[0], updates[1]);
      CHECK(sums_alike(updates));
    }
  }
}

TEST_CASE("a product that vanishes below 0 keeps its sign in the sum, and loses it to a value",
          "[codec]") {
  // Of either place the product with 1e-30 is -0.
  std::vector<float> both(kCount, 0.0F);
  both[10] = -1e-30F;
  both[20] = -1e-30F;
  std::vector<float> first(kCount, 0.0F);
  first[10] = -1e-30F;
  const Encoding top{Codec::kTopK, kCount / 2};  // which keeps two
  std::vector<Update> updates{update_of(top, 1e-30F, both, 0), update_of(top, 1e-30F, first, 1)};
  REQUIRE(std::signbit(1e-30F * updates[0].plain[20]));
  CHECK(sums_alike(updates));
  std::swap(updates[0], updates[1]);
  CHECK(sums_alike(updates));
}

TEST_CASE("a sparse update is summed with a dense one and with one that is no number", "[codec]") {
  std::vector<float> broken = normal_values(3);
  broken[4321] = kNan;
  for (const Encoding& encoding : kCompressed) {
    CHECK(sums_alike({update_of({Codec::kFloat32}, 0.5F, normal_values(1), 0),
                      update_of(encoding, 1, normal_values(2), 1)}));
    CHECK(sums_alike({update_of(encoding, 0.5F, normal_values(1), 0),
                      update_of({Codec::kInt8}, 1, normal_values(2), 1)}));
    CHECK(sums_alike(
        {update_of(encoding, 1, broken, 0), update_of(encoding, 1, normal_values(2), 1)}));
  }
}
