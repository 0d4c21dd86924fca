#include "worker/client/update_encoder.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "tests/unit/client/served_job.hpp"

namespace taut {
namespace {

using namespace taut::test;

constexpr std::size_t kCount = 5000;
constexpr TableId kTable(0);
const std::array kSchemes{math::Encoding{math::Codec::kOneBit},
                          math::Encoding{math::Codec::kTopK, 10},
                          math::Encoding{math::Codec::kRandomK, 10},
                          math::Encoding{.codec = math::Codec::kLowRank, .rank = 2}};

UpdateEncoding encoding_of(const math::Encoding& encoding) {
  UpdateEncoding settings;
  settings.compression.add_push(100, encoding);
  settings.seed = 5;
  return settings;
}

/// A table that is encoded and one that is too small; opened for an encoder.
std::vector<TableSpec> tables() {
  return {make_table(0, {50, kCount / 50}), make_table(1, {50})};
}

void open(UpdateEncoder& encoder, const std::vector<TableSpec>& of = tables()) {
  encoder.open(of, SliceLayout(of, std::vector{ShardId(0)}, 2048));
}

Buffer gradient_at(std::int64_t clock, BufferPool& pool) {
  Buffer gradient = pool.acquire(kCount * sizeof(float));
  std::ranges::copy(gradient_of(1, clock, kCount), gradient.floats().begin());
  return gradient;
}

/// All bytes of a clock's update.
std::string bytes_at(UpdateEncoder& encoder, std::int64_t clock, BufferPool& pool) {
  std::string bytes;
  for (const Update& update :
       encoder.encode(kTable, Clock(clock), gradient_at(clock, pool), 0, pool)) {
    bytes += update.gradient.text();
  }
  return bytes;
}

/// What is read of a clock's update.
std::vector<float> read_at(UpdateEncoder& encoder, std::int64_t clock, BufferPool& pool) {
  std::vector<float> values;
  for (const Update& update :
       encoder.encode(kTable, Clock(clock), gradient_at(clock, pool), 0, pool)) {
    const std::size_t count = std::min<std::size_t>(2048, kCount - values.size());
    std::vector<float> part(count);
    math::decode(update.encoding, update.gradient.bytes().data(), count, 0, part);
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

}  // namespace

TEST_CASE("a leaving member's last update has all that its earlier ones have left out",
          "[client]") {
  BufferPool pool;
  for (const math::Encoding& scheme : kSchemes) {
    UpdateEncoder encoder(encoding_of(scheme));
    open(encoder);
    CHECK(encoder.keeps_residuals());
    std::vector<double> arrived(kCount);
    std::vector<double> pushed(kCount);
    for (std::int64_t clock = 0; clock < 6; ++clock) {
      if (clock == 5) encoder.send_rest();
      const auto read = read_at(encoder, clock, pool);
      const auto gradient = gradient_of(1, clock, kCount);
      bool is_less = false;
      for (std::size_t i = 0; i < kCount; ++i) {
        arrived[i] += read[i];
        pushed[i] += gradient[i];
        is_less = is_less || std::abs(arrived[i] - pushed[i]) > 1e-3;
      }
      CHECK(is_less == (clock < 5));
    }
    const auto last = encoder.encode(kTable, Clock(6), gradient_at(6, pool), 0, pool);
    CHECK(last[0].encoding == math::Encoding());
    const Residuals left = encoder.residuals(Clock(0), Clock(7), kDeadline).value();
    CHECK(std::all_of(left[0].begin(), left[0].begin() + (scheme.rank > 0 ? 2048 : kCount),
                      [](float value) { return value == 0; }));
    CHECK(left[1].empty());
  }
}

TEST_CASE("an encoder that is given another one's residuals continues with its bytes", "[client]") {
  BufferPool pool;
  for (const math::Encoding& scheme : kSchemes) {
    UpdateEncoder whole(encoding_of(scheme));
    open(whole);
    for (std::int64_t clock = 0; clock < 3; ++clock) (void)bytes_at(whole, clock, pool);
    UpdateEncoder resumed(encoding_of(scheme));
    open(resumed);
    REQUIRE(resumed.restore(whole.residuals(Clock(0), Clock(3), kDeadline).value()));
    UpdateEncoder forgetful(encoding_of(scheme));
    open(forgetful);
    const std::string expected = bytes_at(whole, 3, pool);
    CHECK(bytes_at(resumed, 3, pool) == expected);
    CHECK(bytes_at(forgetful, 3, pool) != expected);
    CHECK(bytes_at(resumed, 4, pool) == bytes_at(whole, 4, pool));
  }
}

TEST_CASE("residuals of other tables are not taken", "[client]") {
  UpdateEncoder encoder(encoding_of(kSchemes[0]));
  open(encoder);
  CHECK_FALSE(encoder.restore({}));
  CHECK_FALSE(encoder.restore(Residuals(2)));
  CHECK_FALSE(encoder.restore({std::vector<float>(kCount - 1), {}}));
  CHECK_FALSE(encoder.restore({std::vector<float>(kCount), std::vector<float>(50)}));
  CHECK(encoder.restore({std::vector<float>(kCount), {}}));
  UpdateEncoder none(encoding_of({math::Codec::kInt8}));
  open(none);
  CHECK_FALSE(none.keeps_residuals());
  CHECK(none.residuals(Clock(0), Clock(100), kDeadline).value() == Residuals(2));
}

TEST_CASE("residuals are waited for until the clock's updates are encoded", "[client]") {
  BufferPool pool;
  UpdateEncoder encoder(encoding_of(kSchemes[1]));
  open(encoder);
  // Before the first clock there is nothing to wait for.
  CHECK(encoder.residuals(Clock(7), Clock(7), kDeadline).value()[0] ==
        std::vector<float>(kCount, 0.0F));
  const auto late = encoder.residuals(Clock(7), Clock(8), Duration(1000));
  REQUIRE_FALSE(late.has_value());
  CHECK_THAT(late.error().message, Catch::Matchers::Contains("before clock 8"));
  std::thread behind([&] {
    std::this_thread::yield();
    (void)bytes_at(encoder, 7, pool);
  });
  const auto left = encoder.residuals(Clock(7), Clock(8), kDeadline);
  behind.join();
  REQUIRE(left.has_value());
  CHECK(left.value()[0] != std::vector<float>(kCount, 0.0F));
}

TEST_CASE("a shard takes the rest of a member that leaves as float32", "[client]") {
  JobMaker maker(1);
  auto& given = *maker.state.mutable_definition()->mutable_compression()->add_push();
  given.set_scheme(pb::PushCompression::TOP_K);
  given.set_min_values(100);
  ServedJob served(std::move(maker));
  ClientOptions options = served.options(WorkerId(0));
  options.encoding = encoding_of({math::Codec::kTopK, 100});
  Client client(served.context.make_endpoint(), options);
  REQUIRE(client.open(tables(), kDeadline).has_value());
  std::vector<float> before(kCount);
  std::vector<float> after(kCount);
  REQUIRE(client.snapshot(kTable, before, kDeadline).has_value());
  std::vector<float> sum(kCount);
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    if (clock == 3) client.send_rest();
    for (const TableId table : {TableId(0), TableId(1)}) {
      const Buffer gradient = client.gradient_buffer(table);
      const auto values = gradient_of(0, clock, gradient.floats().size());
      std::ranges::copy(values, gradient.floats().begin());
      client.push(table, Clock(clock), gradient);
      if (table != kTable) continue;
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += values[i];
    }
  }
  REQUIRE(client.flush(kDeadline).has_value());
  REQUIRE(client.snapshot(kTable, after, kDeadline).has_value());
  bool all = true;
  for (std::size_t i = 0; i < kCount; ++i) {
    all = all && std::abs(after[i] - (before[i] - 0.5F * sum[i])) < 1e-3;
  }
  CHECK(all);
}

TEST_CASE("where members apply momentum, an update is the largest of what velocities add up to",
          "[client]") {
  BufferPool pool;
  UpdateEncoding settings = encoding_of({math::Codec::kTopK, 10});
  settings.compression.correct({0.75F, 2});
  UpdateEncoder encoder(settings);
  open(encoder);
  std::vector<float> velocity(kCount);
  std::vector<float> sum(kCount);
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    const float norm = clock == 2 ? 8 : 1;  // it is clipped to a quarter
    const auto gradient = gradient_of(1, clock, kCount);
    std::vector<float> read;
    for (const Update& update :
         encoder.encode(kTable, Clock(clock), gradient_at(clock, pool), norm, pool)) {
      CHECK(update.norm == 0);
      std::vector<float> part(std::min<std::size_t>(2048, kCount - read.size()));
      math::decode(update.encoding, update.gradient.bytes().data(), part.size(), 0, part);
      read.insert(read.end(), part.begin(), part.end());
    }
    bool all = true;
    std::size_t sent = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      velocity[i] = 0.75F * velocity[i] + (clock == 2 ? 0.25F : 1.0F) * gradient[i];
      sum[i] += velocity[i];
      if (read[i] == 0) continue;
      ++sent;
      all = all && read[i] == sum[i];
      velocity[i] = sum[i] = 0;
    }
    CHECK(all);
    CHECK(sent == 205 + 205 + 91);  // a tenth of each slice
    (void)encoder.encode(TableId(1), Clock(clock), pool.acquire(50 * sizeof(float)), norm, pool);
  }
  const Residuals kept = encoder.residuals(Clock(0), Clock(5), kDeadline).value();
  CHECK(std::equal(sum.begin(), sum.end(), kept[0].begin()));
  CHECK(std::equal(velocity.begin(), velocity.end(), kept[0].begin() + kCount));
  CHECK(kept[1].size() == 50);  // too small to be encoded: it has velocities alone
}

TEST_CASE("velocities of a small table and of one of factors are kept and sent whole", "[client]") {
  BufferPool pool;
  UpdateEncoding settings = encoding_of({.codec = math::Codec::kLowRank, .rank = 2});
  settings.compression.correct({0.5F, -1});
  UpdateEncoder encoder(settings);
  open(encoder);
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    const Buffer ones = pool.acquire(50 * sizeof(float));
    std::ranges::fill(ones.floats(), 1.0F);
    const auto updates = encoder.encode(TableId(1), Clock(clock), ones, 0, pool);
    float first = 0;
    std::memcpy(&first, updates[0].gradient.bytes().data(), sizeof first);
    CHECK(first == (clock == 0 ? 1.0F : 1.5F));
    CHECK(ones.floats()[0] == 1);  // the gradient stays
    (void)encoder.encode(kTable, Clock(clock), gradient_at(clock, pool), 0, pool);
  }
  const Residuals kept = encoder.residuals(Clock(0), Clock(2), kDeadline).value();
  const auto of = [](std::int64_t clock) { return gradient_of(1, clock, kCount)[kCount - 1]; };
  CHECK(kept[0].back() == 0.5F * of(0) + of(1));
  UpdateEncoder resumed(settings);
  open(resumed);
  REQUIRE(resumed.restore(kept));
  CHECK(bytes_at(resumed, 2, pool) == bytes_at(encoder, 2, pool));
}

TEST_CASE("a gradient that is not finite leaves velocities as they are", "[client]") {
  BufferPool pool;
  UpdateEncoding settings = encoding_of({math::Codec::kTopK, 10});
  settings.compression.correct({0.5F, -1});
  UpdateEncoder encoder(settings);
  open(encoder, {tables()[0]});
  (void)bytes_at(encoder, 0, pool);
  const Residuals before = encoder.residuals(Clock(0), Clock(1), kDeadline).value();
  const Buffer bad = gradient_at(1, pool);
  bad.floats()[100] = std::numeric_limits<float>::infinity();
  const auto updates = encoder.encode(kTable, Clock(1), bad, 0, pool);
  std::vector<float> read(2048);
  math::decode(updates[0].encoding, updates[0].gradient.bytes().data(), 2048, 0, read);
  CHECK(std::ranges::any_of(read, [](float value) { return std::isnan(value); }));
  const Residuals after = encoder.residuals(Clock(0), Clock(2), kDeadline).value();
  const auto first = before[0].begin() + kCount;  // of the slice's velocities
  CHECK(std::equal(first, first + 2048, after[0].begin() + kCount));
  CHECK_FALSE(std::equal(first + 2048, before[0].end(), after[0].begin() + kCount + 2048));
  // Shards refuse all of an update whose norm is no number.
  const float infinite = std::numeric_limits<float>::infinity();
  std::size_t left = kCount;
  for (const Update& update :
       encoder.encode(kTable, Clock(2), gradient_at(2, pool), infinite, pool)) {
    const std::size_t count = std::min<std::size_t>(2048, left);
    left -= count;
    std::vector<float> all(count);
    math::decode(update.encoding, update.gradient.bytes().data(), count, 0, all);
    CHECK(std::ranges::any_of(all, [](float value) { return std::isnan(value); }));
  }
  CHECK(encoder.residuals(Clock(0), Clock(3), kDeadline).value()[0] == after[0]);
}

}  // namespace taut
