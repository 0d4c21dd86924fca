#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "common/check.hpp"
#include "common/math/codec.hpp"
#include "tests/fuzz/fuzz_target.hpp"

// Reads any bytes as a slice's values in each encoding. The first byte chooses the encoding, the
// second one how sparse it is; the others are the slice, as many values as fit.
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
  return 0;
}
