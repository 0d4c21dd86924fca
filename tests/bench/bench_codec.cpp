#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/math/codec.hpp"
#include "common/math/momentum_correction.hpp"
#include "common/math/update_kernels.hpp"

// Encodes and decodes one slice of 1 MiB in each way and copies it with memcpy, in turns, so that
// whatever else the machine does is alike for all. Prints a line for each: name, values, bytes,
// then the medians of the nanoseconds a value of encoding, of decoding, of an update's share in the
// sum of two, and of the copy.

using namespace taut;

namespace {

constexpr std::size_t kValues = 262'144;

struct Candidate {
  std::string name;
  math::Encoding encoding;
  std::vector<std::byte> bytes;
  std::vector<float> state;
  std::vector<float> velocity;  // if the sender applies the momentum; empty if not
  std::vector<double> encode_ns;
  std::vector<double> decode_ns;
  std::vector<double> sum_ns;
};

double ns_a_value(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kValues;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// As a worker does it.
void encode_update(Candidate& one, const std::vector<float>& values, const math::Draw& draw) {
  if (one.velocity.empty()) {
    return math::encode(one.encoding, values, draw, one.bytes.data(), one.state);
  }
  static std::vector<float> moved(kValues);
  math::advance_velocity(0.9F, 1, values, one.velocity, moved.data());
  math::encode(one.encoding, moved, draw, one.bytes.data(), one.state);
  math::clear_sent_velocities(one.state, one.velocity.data());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the codecs of updates next to memcpy, in turns.");
  int rounds = 200;
  app.add_option("--rounds", rounds, "of all codecs")->check(CLI::Range(1, 100'000));
  CLI11_PARSE(app, argc, argv);

  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.01F);
  std::vector<float> values(kValues);
  for (float& value : values) value = normal(random);
  std::vector<float> read(kValues);
  std::vector<double> copy_ns;
  std::vector<Candidate> candidates;
  const auto add = [&](const std::string& name, const math::Encoding& encoding) {
    candidates.push_back({name,
                          encoding,
                          std::vector<std::byte>(math::encoded_bytes(encoding, kValues)),
                          std::vector<float>(math::state_values(encoding, kValues)),
                          {},
                          {},
                          {},
                          {}});
  };
  using math::Codec;
  add("FLOAT32", {Codec::kFloat32});
  add("FP16", {Codec::kFloat16});
  add("BF16", {Codec::kBfloat16});
  add("INT8", {Codec::kInt8});
  add("ONE_BIT", {Codec::kOneBit});
  add("TOP_K 0.1", {Codec::kTopK, 10});
  add("TOP_K 0.01", {Codec::kTopK, 100});
  add("DGC 0.01", {Codec::kTopK, 100});
  candidates.back().velocity.resize(kValues);
  add("RANDOM_K 0.1", {Codec::kRandomK, 10});
  add("RANDOM_K 0.01", {Codec::kRandomK, 100});
  add("POWER_SGD 2", {.codec = Codec::kLowRank, .rank = 2, .columns = 1024});
  add("POWER_SGD 4", {.codec = Codec::kLowRank, .rank = 4, .columns = 1024});
  for (int round = -3; round < rounds; ++round) {  // the first ones are not counted
    const double copy =
        ns_a_value([&] { std::memcpy(read.data(), values.data(), kValues * sizeof(float)); });
    if (round >= 0) copy_ns.push_back(copy);
    for (Candidate& one : candidates) {
      const math::Draw draw = math::draw_of(1, static_cast<std::uint64_t>(round) + 3, 0, 0, 0);
      const double encode = ns_a_value([&] { encode_update(one, values, draw); });
      // As a shard reads it: a part that stays in the first-level cache at a time.
      const double decode = ns_a_value([&] {
        for (std::size_t begin = 0; begin < kValues; begin += 2048) {
          math::decode(one.encoding, one.bytes.data(), kValues, begin,
                       std::span(read).subspan(begin, 2048));
        }
      });
      const math::GradientView view{one.bytes.data(), 0.5F, one.encoding, kValues};
      const std::array views{view, view};
      const double sum = ns_a_value([&] {
        for (std::size_t begin = 0; begin < kValues; begin += math::kGradientBlock) {
          math::sum_gradients(views, begin, std::span(read).subspan(begin, math::kGradientBlock));
        }
      });
      if (round < 0) continue;
      one.encode_ns.push_back(encode);
      one.decode_ns.push_back(decode);
      one.sum_ns.push_back(sum / views.size());
    }
  }
  for (const Candidate& one : candidates) {
    fmt::print("{},{},{},{:.4f},{:.4f},{:.4f},{:.4f}\n", one.name, kValues, one.bytes.size(),
               median(one.encode_ns), median(one.decode_ns), median(one.sum_ns), median(copy_ns));
  }
  return 0;
}
