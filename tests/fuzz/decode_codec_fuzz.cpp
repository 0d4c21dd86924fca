#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "common/check.hpp"
#include "common/math/codec.hpp"
#include "tests/fuzz/fuzz_target.hpp"

// Reads any bytes as a slice's values in each encoding. The first byte chooses the encoding; the
// others are the slice, as many values as fit.
namespace taut {
namespace {

constexpr std::size_t kCodecs = 4;

std::size_t values_in(const math::Encoding& encoding, std::size_t bytes) {
  std::size_t count = bytes;
  while (math::encoded_bytes(encoding, count) > bytes) --count;
  return count;
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  std::vector<std::string> samples;
  std::vector<float> values(600);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 300.0F;
  for (std::size_t codec = 0; codec < kCodecs; ++codec) {
    const math::Encoding encoding{static_cast<math::Codec>(codec)};
    std::string sample(1 + math::encoded_bytes(encoding, values.size()), '\0');
    sample[0] = static_cast<char>(codec);
    math::encode(encoding, values, math::draw_of(1, 2, 3, 4, 5),
                 std::as_writable_bytes(std::span(sample)).data() + 1);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taut;
  if (size == 0) return 0;
  const math::Encoding encoding{static_cast<math::Codec>(data[0] % kCodecs)};
  const std::size_t count = values_in(encoding, size - 1);
  // Just as many bytes as the slice has: one more that is read is out of bounds.
  const auto bytes = std::as_bytes(std::span(data + 1, math::encoded_bytes(encoding, count)));
  const std::vector<std::byte> slice(bytes.begin(), bytes.end());
  std::vector<float> whole(count);
  math::decode(encoding, slice.data(), 0, whole);
  for (std::size_t begin = 0; begin < count; begin += math::kCodecBlock) {
    std::vector<float> part(std::min<std::size_t>(2 * math::kCodecBlock, count - begin));
    math::decode(encoding, slice.data(), begin, part);
    TAUT_CHECK(std::memcmp(part.data(), &whole[begin], part.size() * sizeof(float)) == 0,
               "a part is read as in the whole");
  }
  return 0;
}
