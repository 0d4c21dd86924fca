#include "worker/cache/device_store.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/net/memory_pinning.hpp"
#include "common/net/message.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/device_values.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/plan/planned_backend.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::LateBackend;
using test::same_bits;
using test::ServedJob;

using Values = std::vector<float>;

constexpr TableId kTable{0};
constexpr std::size_t kCount = 6;

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

std::vector<TableSpec> one_table() {
  return {test::make_table(0, {kCount})};
}

ServedCache::Options patient() {
  ServedCache::Options options;
  options.wait = kDeadline;
  return options;
}

/// Makes a gradient at a clock, publishes it, and waits until the client has the next values.
void push(ServedCache& cache, Backend& backend, Client& client, Stream& compute,
          std::int64_t clock) {
  backend.fill(compute, cache.gradient(0, kTable), 1.0F);
  cache.publish(0, kTable, Clock(clock));
  cache.finish_clock(0, Clock(clock));
  REQUIRE(client.wait(kTable, Clock(clock + 1), kDeadline).has_value());
}

/// A late device whose copies fail when they are done, once they are told to.
class BrokenDevice final : public LateBackend {
 public:
  explicit BrokenDevice(Backend& cpu) : LateBackend(cpu, {}) {}
  void on_call(Stream& stream, DeviceCall call) override {
    const bool to_host = call.kind == CallKind::kCopyToHost && breaks_to_host;
    if (to_host || (!call.host_source.empty() && breaks_to_device)) {
      call.run = [](Stream&, std::span<std::byte* const>) {
        throw DeviceError("the copy was lost");
      };
    }
    LateBackend::on_call(stream, std::move(call));
  }

  std::atomic<bool> breaks_to_host = false;
  std::atomic<bool> breaks_to_device = false;
};

/// All of one stretch of memory is pinned, and nothing else.
class PinnedStretch final : public MemoryPinning {
 public:
  explicit PinnedStretch(std::span<const std::byte> pinned) : pinned_(pinned) {}
  bool pin(std::span<const std::byte> /*part*/) override { return false; }
  void unpin(std::span<const std::byte> /*part*/) noexcept override {}
  bool covers(std::span<const std::byte> bytes) const override {
    return bytes.data() >= pinned_.data() &&
           bytes.data() + bytes.size() <= pinned_.data() + pinned_.size();
  }

 private:
  std::span<const std::byte> pinned_;
};

/// Values that a shard lends: they change once the last copy of the frame is gone.
struct Lender {
  explicit Lender(std::size_t count) : memory(count) {}

  /// `floats` from `begin` on, all of one value.
  Frame lend(std::size_t begin, std::size_t floats, float value) {
    const auto part = std::span(memory).subspan(begin, floats);
    std::ranges::fill(part, value);
    std::shared_ptr<const void> owner(&memory,
                                      [part](const void*) { std::ranges::fill(part, -1.0F); });
    return {std::move(owner), std::as_bytes(part)};
  }
  [[nodiscard]] bool is_given_back(std::size_t index) const { return memory[index] == -1; }

  std::vector<float> memory;
};

/// A device on which no memory is left after this many bytes.
LateBackend::Options with_room_for(std::size_t buffers) {
  LateBackend::Options options;
  options.memory = Bytes(buffers * 256);
  return options;
}

}  // namespace

TEST_CASE("fresh values are copied to the device before they are requested", "[cache]") {
  ServedJob served(JobMaker(1));
  const auto host = cpu();
  LateBackend late(*host, {});
  const auto client = served.client(0);
  const auto compute = late.make_stream();
  const auto cache = ServedCache::open(*client, late, one_table(), patient()).value();
  cache->compute_on(0, *compute);
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    CAPTURE(clock);
    const std::uint64_t before = late.calls();
    REQUIRE(cache->acquire(0, kTable, Clock(clock)).has_value());
    // The second buffer is made when the first clock is over.
    CHECK(late.calls() == before + (clock < 2 ? 1 : 0));
    push(*cache, late, *client, *compute, clock);
  }
}

TEST_CASE("without overlap values are copied when they are requested", "[cache]") {
  ServedJob served(JobMaker(1));
  const auto host = cpu();
  LateBackend late(*host, {});
  const auto client = served.client(0);
  const auto compute = late.make_stream();
  ServedCache::Options options = patient();
  options.overlap = false;
  const auto cache = ServedCache::open(*client, late, one_table(), options).value();
  cache->compute_on(0, *compute);
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    const std::uint64_t before = late.calls();
    REQUIRE(cache->acquire(0, kTable, Clock(clock)).has_value());
    CHECK(late.calls() == before + 1);
    push(*cache, late, *client, *compute, clock);
  }
}

TEST_CASE("values of two clocks on a device never mix, whoever still reads the old ones",
          "[cache]") {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    ServedJob served(JobMaker(1));
    const auto host = cpu();
    LateBackend late(*host, {.seed = seed});
    const auto client = served.client(0);
    const auto compute = late.make_stream();
    const auto cache = ServedCache::open(*client, late, one_table(), patient()).value();
    cache->compute_on(0, *compute);
    constexpr std::size_t kClocks = 6;
    std::vector<Values> before(kClocks, Values(kCount));
    std::vector<Values> after(kClocks, Values(kCount));
    for (std::size_t i = 0; i < kClocks; ++i) {
      const auto clock = static_cast<std::int64_t>(i);
      const auto values = cache->acquire(0, kTable, Clock(clock));
      REQUIRE(values.has_value());
      late.copy_to_host(*compute, values.value(), before[i]);
      push(*cache, late, *client, *compute, clock);
      // The next values are here, and what follows in this clock still means the old ones.
      late.copy_to_host(*compute, values.value(), after[i]);
    }
    compute->finish();
    CAPTURE(seed);
    for (std::size_t i = 0; i < kClocks; ++i) {
      CAPTURE(i);
      CHECK(same_bits(before[i], after[i]));
      if (i > 0) CHECK_FALSE(same_bits(before[i], before[i - 1]));
    }
  }
}

TEST_CASE("a buffer is overwritten after its own last use, with a second one and without",
          "[cache]") {
  // Room for the first buffer alone, and for both.
  for (const std::size_t room : {1U, 2U}) {
    CAPTURE(room);
    const auto host = cpu();
    LateBackend late(*host, with_room_for(room));
    const auto compute = late.make_stream();
    DeviceValues values(late);
    values.add(one_table()[0]);
    values.try_second_buffers();
    REQUIRE(values.has_second_buffers() == (room == 2));
    constexpr std::size_t kClocks = 5;
    std::vector<Values> seen(kClocks, Values(kCount));
    for (std::size_t clock = 0; clock < kClocks; ++clock) {
      std::ranges::fill(values.fresh(kTable), static_cast<float>(clock));
      values.copy_ahead(kTable);
      values.bring(kTable, *compute);
      late.copy_to_host(*compute, values.front(kTable), seen[clock]);
      values.mark_used(kTable, *compute);
      // The host's memory may be written again; the compute is as late as it can be.
      values.finish();
    }
    compute->finish();
    for (std::size_t clock = 0; clock < kClocks; ++clock) {
      CAPTURE(clock);
      CHECK(seen[clock] == Values(kCount, static_cast<float>(clock)));
    }
  }
}

TEST_CASE("lent values are copied as they arrive, and given back when the device has read them",
          "[cache]") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const auto host = cpu();
    LateBackend late(*host, {.seed = seed});
    const auto compute = late.make_stream();
    constexpr std::size_t kClocks = 5;
    Lender lender(kClocks * kCount);
    Lender other(1);
    DeviceValues values(late, std::make_shared<PinnedStretch>(
                                  std::as_bytes(std::span<const float>(lender.memory))));
    values.add(one_table()[0]);
    const std::span<float> fresh = values.fresh(kTable);
    std::vector<Values> seen(kClocks, Values(kCount));
    for (std::size_t clock = 0; clock < kClocks; ++clock) {
      CAPTURE(clock);
      // There is a second buffer from the middle of the second clock's values on.
      const auto value = static_cast<float>(clock);
      const std::size_t first = clock * kCount;
      std::ranges::fill(fresh, 100.0F);
      values.take(fresh.first(2), lender.lend(first, 2, value));
      if (clock == 1) values.try_second_buffers();
      values.take(fresh.subspan(2, 1), other.lend(0, 1, value));
      values.take(fresh.subspan(3), lender.lend(first + 3, kCount - 3, value));
      // What is not pinned is on the host, and given back at once.
      CHECK(fresh[2] == value);
      CHECK(other.is_given_back(0));
      CHECK(fresh[0] == (clock < 2 ? value : 100.0F));
      CHECK(fresh[3] == (clock < 1 ? value : 100.0F));
      values.copy_ahead(kTable);
      values.bring(kTable, *compute);
      late.copy_to_host(*compute, values.front(kTable), seen[clock]);
      values.mark_used(kTable, *compute);
      // Here nothing is done before it is waited for.
      if (seed == 0 && clock >= 1) CHECK_FALSE(lender.is_given_back(first + 3));
      // Nothing new arrives before a gradient of these values has left.
      compute->finish();
    }
    values.finish();
    for (std::size_t clock = 0; clock < kClocks; ++clock) {
      CAPTURE(clock);
      CHECK(seen[clock] == Values(kCount, static_cast<float>(clock)));
      CHECK(lender.is_given_back(clock * kCount + 3));
    }
  }
}

TEST_CASE("two buffers are swapped at every use, whether values arrived early or not", "[cache]") {
  const auto host = cpu();
  LateBackend late(*host, {});
  const auto compute = late.make_stream();
  DeviceValues values(late);
  values.add(one_table()[0]);
  values.add(test::make_table(1, {3}, TableKind::kFrozen));
  values.try_second_buffers();
  std::vector<const float*> places;
  for (int clock = 0; clock < 6; ++clock) {
    std::ranges::fill(values.fresh(kTable), 1.0F);
    if (clock % 3 == 0) values.copy_ahead(kTable);
    values.bring(kTable, *compute);
    places.push_back(values.front(kTable).address());
    values.mark_used(kTable, *compute);
    values.finish();
  }
  CHECK(places[0] != places[1]);
  for (std::size_t i = 2; i < places.size(); ++i) CHECK(places[i] == places[i - 2]);
  // What never changes needs no second place.
  const float* const frozen = values.front(TableId(1)).address();
  values.copy_ahead(TableId(1));
  values.bring(TableId(1), *compute);
  CHECK(values.front(TableId(1)).address() == frozen);
}

TEST_CASE("of values that arrive twice before they are used, the later ones are used", "[cache]") {
  const auto host = cpu();
  LateBackend late(*host, {});
  const auto compute = late.make_stream();
  DeviceValues values(late);
  values.add(one_table()[0]);
  values.try_second_buffers();
  for (const float value : {1.0F, 2.0F}) {
    std::ranges::fill(values.fresh(kTable), value);
    values.copy_ahead(kTable);
    values.finish();
  }
  values.bring(kTable, *compute);
  Values seen(kCount);
  late.copy_to_host(*compute, values.front(kTable), seen);
  compute->finish();
  CHECK(seen == Values(kCount, 2.0F));
}

TEST_CASE("a gradient whose copy failed is missed by flush and by the next clock", "[cache]") {
  for (const bool clips : {false, true}) {
    CAPTURE(clips);
    ServedJob served(JobMaker(1));
    const auto host = cpu();
    BrokenDevice broken(*host);
    const auto client = served.client(0);
    const auto compute = broken.make_stream();
    ServedCache::Options options = patient();
    if (clips) options.norm = math::UpdateNorm::kGradient;
    const auto cache = ServedCache::open(*client, broken, one_table(), options).value();
    cache->compute_on(0, *compute);
    REQUIRE(cache->acquire(0, kTable, Clock(0)).has_value());
    push(*cache, broken, *client, *compute, 0);
    REQUIRE(cache->flush(kDeadline).has_value());
    REQUIRE(cache->acquire(0, kTable, Clock(1)).has_value());
    broken.breaks_to_host = true;
    broken.fill(*compute, cache->gradient(0, kTable), 1.0F);
    cache->publish(0, kTable, Clock(1));
    cache->finish_clock(0, Clock(1));
    const auto flushed = cache->flush(kDeadline);
    REQUIRE_FALSE(flushed.has_value());
    CHECK(flushed.error().code == ErrorCode::kUnavailable);
    CHECK(flushed.error().message == "the copy was lost");
    // It says so at once: the values that it waits for will never come.
    const auto next = cache->acquire(0, kTable, Clock(2));
    REQUIRE_FALSE(next.has_value());
    CHECK(next.error().message == "the copy was lost");
    broken.breaks_to_host = false;
  }
}

TEST_CASE("a thread that waits for the values after a lost gradient gets an error", "[cache]") {
  ServedJob served(JobMaker(1));
  const auto host = cpu();
  BrokenDevice broken(*host);
  const auto client = served.client(0);
  const auto compute = broken.make_stream();
  const auto cache = ServedCache::open(*client, broken, one_table(), patient()).value();
  cache->compute_on(0, *compute);
  REQUIRE(cache->acquire(0, kTable, Clock(0)).has_value());
  broken.breaks_to_host = true;
  broken.fill(*compute, cache->gradient(0, kTable), 1.0F);
  cache->publish(0, kTable, Clock(0));
  cache->finish_clock(0, Clock(0));
  const TimePoint requested_at = steady_now();
  const auto next = cache->acquire(0, kTable, Clock(1));
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().message == "the copy was lost");
  CHECK(steady_now() - requested_at < kDeadline / 2);
  broken.breaks_to_host = false;
}

TEST_CASE("frozen values are waited for by the stream that computes with them", "[cache]") {
  ServedJob served(JobMaker(1));
  const auto host = cpu();
  LateBackend late(*host, {});
  const auto client = served.client(0);
  const auto compute = late.make_stream();
  const std::vector<TableSpec> frozen = {test::make_table(0, {kCount}, TableKind::kFrozen)};
  const auto cache = ServedCache::open(*client, late, frozen, patient()).value();
  cache->compute_on(0, *compute);
  const auto values = cache->acquire(0, kTable, Clock(0));
  REQUIRE(values.has_value());
  Values read(kCount);
  late.copy_to_host(*compute, values.value(), read);
  compute->finish();
  Values kept(kCount);
  REQUIRE(cache->snapshot(kTable, kept).has_value());
  CHECK(same_bits(read, kept));
}

TEST_CASE("a cache ends quietly on a device whose last copies fail", "[cache]") {
  for (const bool ahead : {false, true}) {
    CAPTURE(ahead);
    ServedJob served(JobMaker(1));
    const auto host = cpu();
    BrokenDevice broken(*host);
    const auto client = served.client(0);
    const auto compute = broken.make_stream();
    auto cache = ServedCache::open(*client, broken, one_table(), patient()).value();
    cache->compute_on(0, *compute);
    REQUIRE(cache->acquire(0, kTable, Clock(0)).has_value());
    push(*cache, broken, *client, *compute, 0);
    if (ahead) {
      REQUIRE(cache->acquire(0, kTable, Clock(1)).has_value());
      // No call has waited for the copy that brings the values of clock 2.
      broken.breaks_to_device = true;
      push(*cache, broken, *client, *compute, 1);
    } else {
      broken.breaks_to_device = true;
      REQUIRE(cache->acquire(0, kTable, Clock(1)).has_value());
    }
    CHECK_NOTHROW(cache.reset());
  }
}

TEST_CASE("parameters have one buffer where a memory plan fixes a clock's calls", "[cache]") {
  const auto host = cpu();
  PlannedBackend planned(*host, {.budget = Bytes(1U << 20U)});
  DeviceValues values(planned);
  values.add(one_table()[0]);
  const Bytes needed = planned.needed_bytes();
  values.try_second_buffers();
  CHECK_FALSE(values.has_second_buffers());
  CHECK(planned.needed_bytes() == needed);
}

}  // namespace taut
