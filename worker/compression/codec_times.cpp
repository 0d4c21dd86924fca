#include "worker/compression/codec_times.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "common/math/momentum_correction.hpp"
#include "common/math/update_kernels.hpp"

namespace taut::worker {
namespace {

constexpr int kCodecRounds = 3;  // after one that is not counted
// The difference of two short times is noisy: more rounds, and the median of their differences.
constexpr int kSumRounds = 9;

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

/// Calls work(begin, count) for each part of a slice, as a shard reads it: one that stays in the
/// first-level cache.
template <class Work>
void each_part(std::size_t count, const Work& work) {
  for (std::size_t begin = 0; begin < count; begin += math::kGradientBlock) {
    work(begin, std::min(math::kGradientBlock, count - begin));
  }
}

/// Seconds that a shard takes to sum updates of `count` values.
double sum_s(std::span<const math::GradientView> updates, std::size_t count) {
  std::vector<float> sum(math::kGradientBlock);
  return took_s([&] {
    each_part(count, [&](std::size_t begin, std::size_t part) {
      math::sum_gradients(updates, begin, std::span(sum).first(part));
    });
  });
}

/// Seconds that the second of two updates adds to their sum.
double added_s(std::span<const math::GradientView, 2> updates, std::size_t count) {
  std::vector<double> added;
  for (int round = 0; round <= kSumRounds; ++round) {
    const double one = sum_s(updates.first(1), count);
    const double both = sum_s(updates, count);
    if (round > 0) added.push_back(both - one);
  }
  return std::max(0.0, middle_of(added));
}

/// A worker's state and work for one slice at each clock.
class Sender {
 public:
  Sender(const math::Encoding& encoding, std::size_t count, std::optional<float> momentum)
      : encoding_(encoding),
        momentum_(momentum),
        state_(math::state_values(encoding, count)),
        velocity_(momentum ? count : 0),
        moved_(velocity_.size()) {}

  void encode(std::span<const float> gradient, const math::Draw& draw, std::byte* out) {
    if (!momentum_) return math::encode(encoding_, gradient, draw, out, state_);
    math::advance_velocity(*momentum_, 1, gradient, velocity_, moved_.data());
    math::encode(encoding_, moved_, draw, out, state_);
    if (encoding_.is_sparse()) math::clear_sent_velocities(state_, velocity_.data());
  }

 private:
  const math::Encoding encoding_;
  const std::optional<float> momentum_;
  std::vector<float> state_;
  std::vector<float> velocity_;
  std::vector<float> moved_;
};

}  // namespace

CodecTime time_codec(const math::Encoding& encoding, std::size_t count,
                     std::optional<float> momentum) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.01F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  std::vector<float> read(count);
  Sender sender(encoding, count, momentum);
  std::array<std::vector<std::byte>, 2> updates;
  for (auto& update : updates) update.resize(math::encoded_bytes(encoding, count));
  std::vector<double> encode;
  std::vector<double> decode;
  for (int round = 0; round <= kCodecRounds; ++round) {
    const math::Draw draw = math::draw_of(1, static_cast<std::uint64_t>(round), 0, 0, 0);
    std::vector<std::byte>& bytes = updates[static_cast<std::size_t>(round % 2)];
    encode.push_back(took_s([&] { sender.encode(values, draw, bytes.data()); }));
    decode.push_back(took_s([&] {
      each_part(count, [&](std::size_t begin, std::size_t part) {
        math::decode(encoding, bytes.data(), count, begin, std::span(read).subspan(begin, part));
      });
    }));
  }
  encode.erase(encode.begin());
  decode.erase(decode.begin());
  const std::array views{math::GradientView{updates[0].data(), 1, encoding, count},
                         math::GradientView{updates[1].data(), 1, encoding, count}};
  const auto values_of_slice = static_cast<double>(count);
  return {middle_of(encode) / values_of_slice, middle_of(decode) / values_of_slice,
          added_s(views, count) / values_of_slice};
}

}  // namespace taut::worker
