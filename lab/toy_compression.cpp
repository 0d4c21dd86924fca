#include "lab/toy_compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "common/math/codec.hpp"
#include "common/math/philox.hpp"

namespace taut::sim {
namespace {

/// The nearest number with `digits` binary digits, ties to even; numbers smaller than 2^least have
/// that as the place of their last digit.
float round_to(float value, int digits, int least) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const double place = std::ldexp(1.0, std::max(exponent - digits, least));
  return static_cast<float>(std::nearbyint(value / place) * place);
}

/// Eight draws of 16 bits from each call of Philox: within a block of 256 values, call i has those
/// of values i, i + 32, i + 64 and so on.
std::uint32_t draw16(const math::Draw& draw, std::size_t place) {
  const std::size_t in_block = place % 256;
  const std::size_t part = in_block / 32;
  const std::uint64_t call = draw.first + place / 256 * 32 + in_block % 32;
  const math::Philox drawn = math::Philox::at(draw.key, draw.stream, call);
  const std::uint32_t word = drawn.words[part / 2];
  return part % 2 == 0 ? word % 65536 : word / 65536;
}

void step_by_step(const math::Draw& draw, std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += 256) {
    const auto block = values.subspan(begin, std::min<std::size_t>(256, values.size() - begin));
    float largest = 0;
    for (const float value : block) largest = std::max(largest, std::abs(value));
    if (largest < 0x1p-100F) {
      std::ranges::fill(block, 0.0F);
      continue;
    }
    const float step = largest / 127.0F;
    const float inverse = 127.0F / largest;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float up = (static_cast<float>(draw16(draw, begin + i)) + 0.5F) / 65536.0F;
      block[i] = step * std::clamp(std::floor(block[i] * inverse + up), -127.0F, 127.0F);
    }
  }
}

/// The two means of each 256 values; a value is read as one of them by its sign.
void mean_by_sign(std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += 256) {
    const auto block = values.subspan(begin, std::min<std::size_t>(256, values.size() - begin));
    double means[2] = {0, 0};
    for (const bool negative : {false, true}) {
      std::array<double, 16> sums{};
      int count = 0;
      for (std::size_t i = 0; i < block.size(); ++i) {
        if ((block[i] < 0) != negative) continue;
        sums[i % 16] += block[i];
        ++count;
      }
      double sum = 0;
      for (const double one : sums) sum += one;
      if (count > 0) means[negative ? 1 : 0] = sum / count;
    }
    for (float& value : block) value = static_cast<float>(means[value < 0 ? 1 : 0]);
  }
}

std::vector<std::size_t> largest_places(std::span<const float> values, std::size_t kept) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  places.resize(kept);
  return places;
}

/// One place out of each `every` in a row.
std::vector<std::size_t> drawn_places(const math::Draw& draw, std::size_t count,
                                      std::size_t every) {
  const math::Philox named = math::Philox::at(draw.key, draw.stream, draw.first);
  const std::uint64_t key = named.words[0] + (std::uint64_t{named.words[1]} << 32U);
  std::vector<std::size_t> places;
  for (std::size_t begin = 0; begin < count; begin += every) {
    const std::uint64_t number = begin / every;
    const std::uint32_t word = math::Philox::at(key, 0, number / 4).words[number % 4];
    const std::size_t length = std::min(every, count - begin);
    places.push_back(begin + static_cast<std::size_t>(static_cast<double>(word) / 4294967296.0 *
                                                      static_cast<double>(length)));
  }
  return places;
}

void keep_places(const std::vector<std::size_t>& places, std::vector<float>& values) {
  std::vector<float> kept(values.size(), 0.0F);
  for (const std::size_t place : places) kept[place] = values[place];
  values = std::move(kept);
}

bool has_feedback(Scheme scheme) {
  return scheme == pb::PushCompression::ONE_BIT || scheme == pb::PushCompression::TOP_K ||
         scheme == pb::PushCompression::RANDOM_K || scheme == pb::PushCompression::DGC ||
         scheme == pb::PushCompression::POWER_SGD;
}

/// One of how many values is sent: 4, 16, 64 ... and in the end 1 / `keep`.
std::size_t spread_at(const pb::PushCompression& push, std::int64_t clock) {
  const auto last = static_cast<std::size_t>(std::lround(1 / push.keep()));
  if (clock >= push.warm_up()) return last;
  std::vector<std::size_t> stages;
  for (std::size_t stage = 4; stage < last; stage *= 4) stages.push_back(stage);
  stages.push_back(last);
  const auto size = static_cast<std::int64_t>(stages.size());
  return stages[static_cast<std::size_t>(clock * size / push.warm_up())];
}

/// The product of two vectors that replaces an update: one step of power iteration.
void multiply_factors(const math::Draw& draw, std::vector<float>& factor,
                      std::vector<float>& matrix) {
  const std::size_t columns = matrix.size() / kToyRows;
  if (factor.empty()) {
    for (std::size_t j = 0; j < columns; ++j) {
      const std::uint32_t word =
          math::Philox::at(draw.key, draw.stream, draw.first + j / 4).words[j % 4];
      factor.push_back(static_cast<float>(word) / 2147483648.0F - 1.0F);
    }
  }
  std::array<double, kToyRows> left{};
  for (std::size_t i = 0; i < kToyRows; ++i) {
    std::array<double, 16> sums{};
    for (std::size_t j = 0; j < columns; ++j) {
      sums[j % 16] += double{matrix[i * columns + j]} * double{factor[j]};
    }
    for (const double sum : sums) left[i] += sum;
  }
  // In the order of codec_elements.hpp's lanes.
  static_assert(kToyRows == 4);
  const auto square = [&left](std::size_t i) { return left[i] * left[i]; };
  const double squares = (square(0) + square(2)) + (square(1) + square(3));
  std::vector<float> right(columns, 0.0F);
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (std::size_t i = 0; i < kToyRows; ++i) {
    left[i] *= scale;
    for (std::size_t j = 0; j < columns; ++j) {
      right[j] += static_cast<float>(left[i]) * matrix[i * columns + j];
    }
  }
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    matrix[i] = static_cast<float>(left[i / columns]) * right[i % columns];
  }
  const bool is_zero = std::ranges::all_of(right, [](float value) { return value == 0; });
  if (!is_zero) factor = std::move(right);
}

/// The update becomes the velocity that it results in.
void gain_velocity(std::vector<float>& velocity, std::vector<float>& update) {
  velocity.resize(update.size(), 0.0F);
  for (std::size_t i = 0; i < update.size(); ++i) update[i] += kToyMomentum * velocity[i];
  velocity = update;
}

}  // namespace

bool workers_apply_momentum(const pb::Compression& compression) {
  return std::ranges::any_of(compression.push(), [](const pb::PushCompression& push) {
    return push.scheme() == pb::PushCompression::DGC;
  });
}

pb::PushCompression push_of(const pb::Compression& compression) {
  pb::PushCompression newest;
  for (const pb::PushCompression& push : compression.push()) {
    if (push.min_values() < 1000) newest = push;
  }
  return newest;
}

pb::PullCompression pull_of(const pb::Compression& compression) {
  pb::PullCompression newest;
  for (const pb::PullCompression& pull : compression.pull()) {
    if (pull.min_values() < 1000) newest = pull;
  }
  return newest;
}

Result<Scheme> find_scheme(const std::string& name) {
  Scheme scheme{};
  if (pb::PushCompression::Scheme_Parse(name, &scheme) && scheme != pb::PushCompression::AUTO) {
    return scheme;
  }
  return invalid(
      fmt::format("scheme \"{}\" is unknown; it is one of PushCompression's in "
                  "proto/job.proto",
                  name));
}

namespace {

void draw_pushes(Random& random, const pb::Consistency& policies,
                 const std::optional<Scheme>& fixed, pb::Compression& compression) {
  // AUTO becomes one of the others once a job trains.
  constexpr Scheme kLast = pb::PushCompression::POWER_SGD;
  const bool is_on = fixed.has_value() || random.chance(0.3);
  const auto drawn = static_cast<Scheme>(1 + random.below(kLast));
  // At times one more step below it and one above: neither applies to the toy job's tables.
  const bool has_lower = random.chance(0.3);
  const bool has_upper = random.chance(0.3);
  const Scheme scheme = fixed.value_or(drawn);
  const bool loses_parts = policies.backup_workers() > 0 || policies.has_delay_compensation() ||
                           policies.has_periodic_averaging();
  if (!is_on || policies.has_elastic_averaging() || (loses_parts && has_feedback(scheme))) return;
  if (has_lower) {
    pb::PushCompression& lower = *compression.add_push();
    lower.set_scheme(pb::PushCompression::FP16);
    lower.set_min_values(1);
  }
  pb::PushCompression& push = *compression.add_push();
  push.set_scheme(scheme);
  push.set_min_values(2);
  // Fewer than the six nonzero values of a toy update, or TOP_K would leave nothing out.
  if (scheme == pb::PushCompression::TOP_K) push.set_keep(0.04F);
  if (scheme == pb::PushCompression::RANDOM_K) push.set_keep(0.25F);
  if (scheme == pb::PushCompression::DGC) {
    push.set_keep(0.04F);
    if (random.chance(0.5)) push.set_warm_up(8);
  }
  if (scheme == pb::PushCompression::POWER_SGD) push.set_rank(1);
  if (has_upper) {
    pb::PushCompression& upper = *compression.add_push();
    upper.set_scheme(pb::PushCompression::BF16);
    upper.set_min_values(1000);
  }
}

void draw_pulls(Random& random, const pb::Consistency& policies, pb::Compression& compression) {
  constexpr auto kLast = pb::PullCompression::INT8;
  const bool is_on = random.chance(0.3);
  const auto scheme = static_cast<pb::PullCompression::Scheme>(1 + random.below(kLast));
  const bool has_upper = random.chance(0.3);
  if (!is_on || policies.has_elastic_averaging() || policies.has_delay_compensation()) return;
  pb::PullCompression& pull = *compression.add_pull();
  pull.set_scheme(scheme);
  pull.set_min_values(2);
  if (!has_upper) return;
  pb::PullCompression& upper = *compression.add_pull();
  upper.set_scheme(pb::PullCompression::FLOAT32);
  upper.set_min_values(1000);
}

/// The largest N such that this scheme represents each whole number up to N; 0 if there is none.
template <typename Compressed>
std::int64_t largest_count(const Compressed& way) {
  switch (way.scheme()) {
    case Compressed::FLOAT32:
      return std::int64_t{1} << 24;
    case Compressed::FP16:
      return std::int64_t{1} << 11;
    case Compressed::BF16:
      return std::int64_t{1} << 8;
    default:
      return 0;
  }
}

}  // namespace

pb::Compression draw_compression(Random& random, const pb::Consistency& policies,
                                 const std::optional<Scheme>& fixed) {
  pb::Compression compression;
  draw_pushes(random, policies, fixed, compression);
  draw_pulls(random, policies, compression);
  return compression;
}

bool keeps_counts(const pb::Compression& compression, std::int64_t clocks) {
  // An update contains its clock, and values contain the sum of all clocks.
  return clocks <= largest_count(push_of(compression)) &&
         clocks * (clocks + 1) / 2 <= largest_count(pull_of(compression));
}

void arrive(const pb::Compression& compression, const Sender& sender, std::vector<float>& update,
            Kept& kept) {
  const math::Draw draw = math::draw_of(sender.seed, static_cast<std::uint64_t>(sender.clock),
                                        sender.slot, sender.table.value(), sender.slice.value());
  const pb::PushCompression push = push_of(compression);
  const std::size_t every = spread_at(push, sender.clock);
  const std::size_t sent = (update.size() + every - 1) / every;
  if (workers_apply_momentum(compression)) gain_velocity(kept.velocity, update);
  if (has_feedback(push.scheme())) {
    kept.residual.resize(update.size(), 0.0F);
    for (std::size_t i = 0; i < update.size(); ++i) update[i] += kept.residual[i];
    kept.residual = update;
  }
  if (sender.is_plain) {
    kept.residual.clear();
    return;
  }
  switch (push.scheme()) {
    case pb::PushCompression::FP16:
      for (float& value : update) value = round_to(value, 11, -24);
      return;
    case pb::PushCompression::BF16:
      for (float& value : update) value = round_to(value, 8, -133);
      return;
    case pb::PushCompression::INT8:
      return step_by_step(draw, update);
    case pb::PushCompression::ONE_BIT:
      mean_by_sign(update);
      break;
    case pb::PushCompression::TOP_K:
    case pb::PushCompression::DGC:
      keep_places(largest_places(update, sent), update);
      break;
    case pb::PushCompression::POWER_SGD:
      multiply_factors(draw, kept.factor, update);
      break;
    case pb::PushCompression::RANDOM_K:
      keep_places(drawn_places(draw, update.size(), every), update);
      break;
    default:
      return;
  }
  for (std::size_t i = 0; i < update.size(); ++i) {
    kept.residual[i] -= update[i];
    if (!kept.velocity.empty() && kept.residual[i] == 0) kept.velocity[i] = 0;
  }
}

void encode_for_members(const pb::Compression& compression, std::uint64_t seed, TableId table,
                        SliceId slice, std::int64_t applications, std::vector<float>& values) {
  // No member has this slot.
  constexpr std::uint32_t kShard = 65535;
  switch (pull_of(compression).scheme()) {
    case pb::PullCompression::FP16:
      for (float& value : values) value = round_to(value, 11, -24);
      return;
    case pb::PullCompression::BF16:
      for (float& value : values) value = round_to(value, 8, -133);
      return;
    case pb::PullCompression::INT8:
      return step_by_step(math::draw_of(seed, static_cast<std::uint64_t>(applications), kShard,
                                        table.value(), slice.value()),
                          values);
    default:
      return;
  }
}

}  // namespace taut::sim
