#include "worker/compression/codec_times.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace taut::worker {
namespace {

constexpr int kCodecRounds = 3;  // after one that is not counted
// A part that stays in the first-level cache, as a shard reads a slice.
constexpr std::size_t kDecodedPart = 2048;

double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class Work>
double took_s(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

CodecTime time_codec(const math::Encoding& encoding, std::size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.01F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  std::vector<float> read(count);
  std::vector<float> state(math::state_values(encoding, count));
  std::vector<std::byte> bytes(math::encoded_bytes(encoding, count));
  std::vector<double> encode;
  std::vector<double> decode;
  for (int round = 0; round <= kCodecRounds; ++round) {
    const math::Draw draw = math::draw_of(1, static_cast<std::uint64_t>(round), 0, 0, 0);
    encode.push_back(took_s([&] { math::encode(encoding, values, draw, bytes.data(), state); }));
    decode.push_back(took_s([&] {
      for (std::size_t begin = 0; begin < count; begin += kDecodedPart) {
        const std::size_t part = std::min(kDecodedPart, count - begin);
        math::decode(encoding, bytes.data(), count, begin, std::span(read).subspan(begin, part));
      }
    }));
  }
  encode.erase(encode.begin());
  decode.erase(decode.begin());
  const auto values_of_slice = static_cast<double>(count);
  return {middle_of(encode) / values_of_slice, middle_of(decode) / values_of_slice};
}

}  // namespace taut::worker
