#include "lab/toy_compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "common/math/codec.hpp"
#include "common/math/philox.hpp"

namespace taut::sim {
namespace {

/// The nearest number with so many binary digits, of two the even one; smaller numbers than 2^least
/// have that as the place of their last digit.
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
  const math::Philox made = math::Philox::at(draw.key, draw.stream, call);
  const std::uint32_t word = made.words[part / 2];
  return part % 2 == 0 ? word % 65536 : word / 65536;
}

void step_by_step(const math::Draw& draw, std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += 256) {
    const auto block = values.subspan(begin, std::min<std::size_t>(256, values.size() - begin));
    float largest = 0;
    for (const float value : block) largest = std::max(largest, std::abs(value));
    const float step = largest / 127.0F;
    const float inverse = 127.0F / largest;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float up = (static_cast<float>(draw16(draw, begin + i)) + 0.5F) / 65536.0F;
      block[i] = step * std::clamp(std::floor(block[i] * inverse + up), -127.0F, 127.0F);
    }
  }
}

}  // namespace

pb::PushCompression push_of(const pb::Compression& compression) {
  pb::PushCompression newest;
  for (const pb::PushCompression& push : compression.push()) {
    if (push.min_values() < 1000) newest = push;
  }
  return newest;
}

Result<Scheme> find_scheme(const std::string& name) {
  Scheme scheme{};
  if (pb::PushCompression::Scheme_Parse(name, &scheme)) return scheme;
  return invalid(
      fmt::format("scheme \"{}\" is unknown; it is one of PushCompression's in "
                  "proto/job.proto",
                  name));
}

pb::Compression draw_compression(Random& random, const pb::Consistency& policies,
                                 const std::optional<Scheme>& fixed) {
  constexpr Scheme kLast = pb::PushCompression::Scheme_MAX;
  pb::Compression compression;
  const bool is_on = fixed.has_value() || random.chance(0.3);
  const auto drawn = static_cast<Scheme>(1 + random.below(kLast));
  // One more step below it and one above, now and then: neither is for the toy job's tables.
  const bool has_lower = random.chance(0.3);
  const bool has_upper = random.chance(0.3);
  const bool averages = policies.has_elastic_averaging() || policies.has_periodic_averaging();
  if (!is_on || averages) return compression;
  if (has_lower) {
    pb::PushCompression& lower = *compression.add_push();
    lower.set_scheme(pb::PushCompression::FP16);
    lower.set_min_values(1);
  }
  pb::PushCompression& push = *compression.add_push();
  push.set_scheme(fixed.value_or(drawn));
  push.set_min_values(2);
  if (has_upper) {
    pb::PushCompression& upper = *compression.add_push();
    upper.set_scheme(pb::PushCompression::BF16);
    upper.set_min_values(1000);
  }
  return compression;
}

bool keeps_counts(const pb::Compression& compression, std::int64_t clocks) {
  switch (push_of(compression).scheme()) {
    case pb::PushCompression::FLOAT32:
      return true;
    case pb::PushCompression::FP16:
      return clocks <= 2048;
    case pb::PushCompression::BF16:
      return clocks <= 256;
    default:
      return false;
  }
}

void arrive(const pb::Compression& compression, const Sender& sender, std::vector<float>& update) {
  const math::Draw draw = math::draw_of(sender.seed, static_cast<std::uint64_t>(sender.clock),
                                        sender.slot, sender.table.value(), sender.slice.value());
  switch (push_of(compression).scheme()) {
    case pb::PushCompression::FP16:
      for (float& value : update) value = round_to(value, 11, -24);
      return;
    case pb::PushCompression::BF16:
      for (float& value : update) value = round_to(value, 8, -133);
      return;
    case pb::PushCompression::INT8:
      return step_by_step(draw, update);
    default:
      return;
  }
}

}  // namespace taut::sim
