#include "worker/cache/device_encoder.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {
namespace {

using test::kDeadline;

using Values = std::vector<float>;

constexpr TableId kLarge{0};
constexpr TableId kSmall{1};  // too small to be encoded
constexpr std::int64_t kClocks = 4;

/// Of two slices; and the one that is too small.
std::vector<TableSpec> tables() {
  return {test::make_table(0, {550, 500}), test::make_table(1, {50})};
}
constexpr std::size_t kCount = 275'000;
constexpr std::size_t kSmallCount = 50;

struct Scheme {
  pb::PushCompression::Scheme scheme;
  math::Encoding encoding;
  std::uint32_t warm_up = 0;
  std::optional<Compression::Correction> correction = {};
  [[nodiscard]] bool clips() const { return correction && correction->clips(); }
};
const std::vector<Scheme> kSchemes{
    {pb::PushCompression::FP16, {math::Codec::kFloat16}},
    {pb::PushCompression::BF16, {math::Codec::kBfloat16}},
    {pb::PushCompression::INT8, {math::Codec::kInt8}},
    {pb::PushCompression::ONE_BIT, {math::Codec::kOneBit}},
    {pb::PushCompression::RANDOM_K, {math::Codec::kRandomK, 100}},
    {pb::PushCompression::TOP_K, {math::Codec::kTopK, 100}},
    {pb::PushCompression::POWER_SGD, {.codec = math::Codec::kLowRank, .rank = 3, .columns = 500}},
    {pb::PushCompression::DGC, {math::Codec::kTopK, 100}, 3, Compression::Correction{0.75F, -1}},
    // Some of the four gradients' norms are smaller and some are larger.
    {pb::PushCompression::DGC,
     {math::Codec::kTopK, 100},
     3,
     Compression::Correction{0.75F, 524.4F}},
};

Compression compression_of(const Scheme& scheme) {
  Compression compression;
  compression.add_push(100, scheme.encoding, scheme.warm_up);
  if (scheme.correction) compression.correct(*scheme.correction);
  return compression;
}

/// A late device that encodes or leaves it to the host, and counts the bytes that it copies there.
class Device final : public test::LateBackend {
 public:
  Device(Backend& cpu, std::uint64_t seed, bool encodes)
      : LateBackend(cpu, {.seed = seed}), encodes_(encodes) {}
  bool encodes() const override { return encodes_; }
  void on_call(Stream& stream, DeviceCall call) override {
    if (call.kind == CallKind::kCopyToHost) copied += call.host_target.size();
    if (call.kind == CallKind::kCopyToHost && breaks) {
      call.run = [](Stream&, std::span<std::byte* const>) {
        throw DeviceError("the copy was lost");
      };
    }
    LateBackend::on_call(stream, std::move(call));
  }

  std::atomic<std::uint64_t> copied = 0;
  std::atomic<bool> breaks = false;

 private:
  const bool encodes_;
};

struct Run {
  std::uint64_t seed = 0;  // of the device's times
  bool on_device = true;
  std::optional<Residuals> from = {};  // another member's
  bool leaves = false;                 // with the last clock
};

struct Outcome {
  Values values;
  Residuals residuals;
  std::uint64_t copied = 0;  // for updates
  std::string failure;       // of residuals of a device that has failed
};

void publish(ServedCache& cache, Device& device, Stream& compute, TableId table,
             const Values& gradient, std::int64_t clock) {
  device.copy_to_device(compute, gradient, cache.gradient(0, table));
  cache.publish(0, table, Clock(clock));
}

Outcome train(const Scheme& scheme, const Run& run) {
  test::JobMaker maker(1);
  auto& push = *maker.state.mutable_definition()->mutable_compression()->add_push();
  push.set_scheme(scheme.scheme);
  push.set_min_values(100);
  if (scheme.encoding.rank > 0) push.set_rank(scheme.encoding.rank);
  if (scheme.encoding.is_sparse()) push.set_keep(1.0F / static_cast<float>(scheme.encoding.every));
  if (scheme.warm_up > 0) push.set_warm_up(scheme.warm_up);
  if (scheme.correction) {
    pb::SolverParameter& solver = *maker.state.mutable_definition()->mutable_solver_param();
    solver.set_momentum(scheme.correction->momentum);
    solver.set_clip_gradients(scheme.correction->clip_norm);
  }
  test::ServedJob served(std::move(maker));
  ClientOptions options = served.options(WorkerId(0));
  options.encoding.compression = compression_of(scheme);
  options.encoding.seed = 5;
  Client client(served.context.make_endpoint(), options);
  const auto host = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  std::vector<Values> gradients;  // copied as late as the device likes
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    gradients.push_back(test::gradient_of(0, clock, kCount));
    gradients.push_back(test::gradient_of(0, clock, kSmallCount));
  }
  Device device(*host, run.seed, run.on_device);
  const auto compute = device.make_stream();
  ServedCache::Options caching;
  caching.wait = kDeadline;
  caching.norm = scheme.clips() ? math::UpdateNorm::kGradient : math::UpdateNorm::kNone;
  const auto cache = ServedCache::open(client, device, tables(), caching).value();
  cache->compute_on(0, *compute);
  if (run.from) REQUIRE(client.restore(*run.from));
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    for (const TableId table : {kLarge, kSmall}) {
      REQUIRE(cache->acquire(0, table, Clock(clock)).has_value());
    }
    if (run.leaves && clock == kClocks - 1) client.send_rest();
    const auto first = 2 * static_cast<std::size_t>(clock);
    publish(*cache, device, *compute, kSmall, gradients[first + 1], clock);
    publish(*cache, device, *compute, kLarge, gradients[first], clock);
    cache->finish_clock(0, Clock(clock));
  }
  REQUIRE(cache->flush(kDeadline).has_value());
  compute->finish();
  Outcome outcome{Values(kCount), {}, device.copied, {}};
  REQUIRE(cache->snapshot(kLarge, outcome.values).has_value());
  outcome.residuals = client.residuals(Clock(0), Clock(kClocks), kDeadline).value();
  device.breaks = true;
  const auto lost = client.residuals(Clock(0), Clock(kClocks), kDeadline);
  if (!lost) outcome.failure = lost.error().message;
  device.breaks = false;
  return outcome;
}

/// The bytes copied for `clocks` clocks' updates, at a multiple of 16 for each slice.
std::uint64_t copied_bytes(const Scheme& scheme, std::int64_t clocks) {
  std::uint64_t bytes = 0;
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    bytes += kSmallCount * sizeof(float);
    const math::Encoding encoding = compression_of(scheme).of_push(tables()[0], Clock(clock));
    for (const std::uint64_t count :
         {SliceLayout::kSliceElements, kCount - SliceLayout::kSliceElements}) {
      bytes += (math::encoded_bytes(encoding, count) + 15) / 16 * 16;
    }
  }
  return bytes;
}

void check_same(const Outcome& device, const Outcome& host) {
  CHECK(test::same_bits(device.values, host.values));
  REQUIRE(device.residuals.size() == host.residuals.size());
  CHECK(test::same_bits(device.residuals[0], host.residuals[0]));
  CHECK(test::same_bits(device.residuals[1], host.residuals[1]));
}

}  // namespace

TEST_CASE("updates that a device encodes reach the shards and leave out what the host's would",
          "[cache]") {
  for (const Scheme& scheme : kSchemes) {
    CAPTURE(math::to_string(scheme.encoding));
    const Outcome host = train(scheme, {.on_device = false});
    CHECK(host.copied == kClocks * (kCount + kSmallCount) * sizeof(float));
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      CAPTURE(seed);
      const Outcome device = train(scheme, {.seed = seed});
      check_same(device, host);
      CHECK(device.copied == copied_bytes(scheme, kClocks));
      // What a lost device keeps is missed, and nothing else is.
      CHECK(device.failure == (scheme.encoding.has_residual() ? "the copy was lost" : ""));
    }
  }
}

TEST_CASE("a device continues with another member's residuals, and its last update has the rest",
          "[cache]") {
  for (const Scheme& scheme : kSchemes) {
    if (!scheme.encoding.has_residual()) continue;
    CAPTURE(math::to_string(scheme.encoding));
    const Residuals before = train(scheme, {}).residuals;
    const Outcome continued = train(scheme, {.from = before});
    check_same(continued, train(scheme, {.on_device = false, .from = before}));
    CHECK_FALSE(test::same_bits(continued.residuals[0], before[0]));
    const Outcome left = train(scheme, {.from = before, .leaves = true});
    check_same(left, train(scheme, {.on_device = false, .from = before, .leaves = true}));
    const auto of_first = std::span(left.residuals[0]).first(SliceLayout::kSliceElements);
    CHECK(std::ranges::all_of(of_first, [](float value) { return value == 0; }));
    CHECK(left.copied ==
          copied_bytes(scheme, kClocks - 1) + (kCount + kSmallCount) * sizeof(float));
  }
}

}  // namespace taut
