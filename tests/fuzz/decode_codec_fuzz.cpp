#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "common/check.hpp"
#include "common/math/codec.hpp"
#include "common/math/update_kernels.hpp"
#include "tests/fuzz/fuzz_target.hpp"

// Reads any bytes as a slice's values in each encoding, and sums them as a shard does, without
// decoding them where it can. The first byte chooses the encoding, the second one how sparse it is;
// the others are the slice, as many values as fit.
namespace taut {
namespace {

math::Encoding encoding_of(std::uint8_t codec, std::uint8_t sparse) {
  math::Encoding encoding{static_cast<math::Codec>(codec % math::kCodecs)};
  if (encoding.is_sparse()) encoding.every = 2U + sparse;
  if (encoding.codec == math::Codec::kLowRank) {
    encoding.rank = 1U + sparse % 8;
    encoding.columns = 1U + sparse;
  }
  return encoding;
}

constexpr std::size_t kHead = 2;

/// The most values that have no more bytes.
std::size_t values_in(const math::Encoding& encoding, std::size_t bytes) {
  std::size_t low = 0;
  std::size_t high = bytes * 8;
  if (encoding.is_sparse()) high = bytes * encoding.every;
  if (encoding.codec == math::Codec::kLowRank) high = bytes * encoding.columns;
  while (low < high) {
    const std::size_t middle = low + (high - low + 1) / 2;
    if (math::encoded_bytes(encoding, middle) <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// As a shard does, block by block.
std::vector<float> sum_of(std::span<const math::GradientView> updates, std::size_t count) {
  std::vector<float> sum(count);
  for (std::size_t begin = 0; begin < count; begin += math::kGradientBlock) {
    const std::size_t part = std::min(math::kGradientBlock, count - begin);
    math::sum_gradients(updates, begin, std::span(sum).subspan(begin, part));
  }
  return sum;
}

/// In all bits, except which NaN it is: a sum of two of them has the bits of either.
bool is_alike(float found, float expected) {
  return std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(expected) ||
         (std::isnan(found) && std::isnan(expected));
}

/// One update and two, with factors of which a sum takes only what was kept, and others. What is
/// not well formed has no meaning, and is read without harm.
/// decoded  the slice as it is read
void check_sums(const math::Encoding& encoding, std::span<const std::byte> slice,
                std::span<const float> decoded, bool is_well_formed) {
  constexpr std::array<std::array<float, 2>, 2> kFactors{{{0.3F, 2.0F}, {1.0F, -0.5F}}};
  const std::size_t count = decoded.size();
  for (const auto& factors : kFactors) {
    std::array<math::GradientView, 2> encoded;
    std::array<math::GradientView, 2> plain;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      encoded.at(i) = {slice.data(), factors.at(i), encoding, count};
      plain.at(i) = {std::as_bytes(decoded).data(), factors.at(i), {}, count};
    }
    for (std::size_t updates = 1; updates <= encoded.size(); ++updates) {
      const auto found = sum_of(std::span(encoded).first(updates), count);
      const auto expected = sum_of(std::span(plain).first(updates), count);
      TAUT_CHECK(!is_well_formed || std::ranges::equal(found, expected, is_alike),
                 "a sum of updates is that of what they are read as");
    }
  }
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  std::vector<std::string> samples;
  std::vector<float> values(600);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 300.0F;
  for (std::uint8_t codec = 0; codec < math::kCodecs; ++codec) {
    const math::Encoding encoding = encoding_of(codec, 3);
    std::string sample(kHead + math::encoded_bytes(encoding, values.size()), '\0');
    sample[0] = static_cast<char>(codec);
    sample[1] = 3;
    std::vector<float> state(math::state_values(encoding, values.size()));
    math::encode(encoding, values, math::draw_of(1, 2, 3, 4, 5),
                 std::as_writable_bytes(std::span(sample)).data() + kHead, state);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taut;
  if (size < kHead) return 0;
  const math::Encoding encoding = encoding_of(data[0], data[1]);
  const std::size_t count = values_in(encoding, size - kHead);
  const std::uint64_t used = math::encoded_bytes(encoding, count);
  if (used > size - kHead) return 0;  // not even a slice without values
  // Just as many bytes as the slice has: one more that is read is out of bounds.
  const auto bytes = std::as_bytes(std::span(data + kHead, used));
  const std::vector<std::byte> slice(bytes.begin(), bytes.end());
  std::vector<float> whole(count);
  math::decode(encoding, slice.data(), count, 0, whole);
  const bool is_well_formed = math::is_well_formed(encoding, slice.data(), count);
  for (std::size_t begin = 0; begin < count; begin += math::kCodecBlock) {
    std::vector<float> part(std::min<std::size_t>(2 * math::kCodecBlock, count - begin));
    math::decode(encoding, slice.data(), count, begin, part);
    if (!is_well_formed) continue;  // no meaning, and yet no harm
    TAUT_CHECK(std::memcmp(part.data(), &whole[begin], part.size() * sizeof(float)) == 0,
               "a part is read as in the whole");
  }
  check_sums(encoding, slice, whole, is_well_formed);
  return 0;
}
