#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/engine/plan/planned_backend.hpp"

namespace taut {
namespace {

using test::job_of;
using test::lenet;
using test::Tables;
using test::train;
using test::train_served;

std::unique_ptr<Backend> cpu() {
  return test::one_thread();
}

Result<Tables> train(PlannedBackend& backend, const pb::Job& job, std::int64_t clocks,
                     std::uint32_t replicas = 1) {
  return train(backend, job, clocks, replicas, backend.budget());
}

void check_same(const Tables& a, const Tables& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t table = 0; table < a.size(); ++table) {
    CAPTURE(table);
    CHECK(test::same_bits(a[table], b[table]));
  }
}

/// What training takes when every buffer has its own place.
std::uint64_t need_of(const pb::Job& job) {
  const auto host = cpu();
  PlannedBackend unlimited(*host, {.budget = Bytes(1ULL << 34U)});
  REQUIRE(train(unlimited, job, 0).has_value());
  return total_bytes(unlimited.cycle("training")->trace()).value();
}

/// A device that could record what repeats, and writes down what it is asked to: keys by clock.
class RepeatWatch final : public test::LateBackend {
 public:
  using LateBackend::LateBackend;
  bool repeats() const override { return true; }
  bool begin_repeat(Stream&, std::uint64_t key, Clock clock) override {
    keys[clock.value()].push_back(key);
    return true;
  }

  std::map<std::int64_t, std::vector<std::uint64_t>> keys;
};

}  // namespace

TEST_CASE("LeNet in a quarter of its memory ends in the same bits, with a server and without",
          "[budget]") {
  const pb::Job job = lenet();
  const std::uint64_t need = need_of(job);
  CAPTURE(need);
  const auto host = cpu();
  const Tables expected = train(*host, job, 4).value();
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    CAPTURE(seed);
    test::LateBackend late(*host, {.seed = seed});
    PlannedBackend planned(late, {.budget = Bytes(need / 4), .poison = true});
    const auto within = train(planned, job, 4);
    INFO((within ? std::string() : within.error().message));
    REQUIRE(within.has_value());
    check_same(within.value(), expected);
    CHECK(planned.arena_bytes().value() <= need / 4);
    CHECK(planned.cycle("training")->plan().moved_bytes().value() > 0);
  }
  PlannedBackend planned(*host, {.budget = Bytes(need / 4)});
  check_same(train_served(planned, job, 4).value(), train_served(*host, job, 4).value());
  test::LateBackend late(*host, {});
  PlannedBackend later(late, {.budget = Bytes(need / 4), .poison = true});
  check_same(train_served(later, job, 4).value(), train_served(*host, job, 4).value());
}

TEST_CASE("a served device with its own memory trains LeNet to the same bits", "[budget]") {
  const pb::Job job = lenet();
  const auto host = cpu();
  const Tables expected = train_served(*host, job, 4).value();
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    CAPTURE(seed);
    test::LateBackend late(*host, {.seed = seed});
    check_same(train_served(late, job, 4).value(), expected);
  }
}

TEST_CASE("swapped values match their recordings every other clock", "[budget]") {
  const auto host = cpu();
  RepeatWatch watch(*host, {});
  constexpr std::int64_t kClocks = 6;
  REQUIRE(train_served(watch, lenet(), kClocks).has_value());
  REQUIRE(watch.keys.size() == kClocks);
  CHECK(watch.keys[0] != watch.keys[1]);
  for (std::int64_t clock = 2; clock < kClocks; ++clock) {
    CAPTURE(clock);
    CHECK(watch.keys[clock] == watch.keys[clock - 2]);
  }
}

TEST_CASE("nets of every kind end in the same bits within half of their need", "[budget]") {
  struct Case {
    std::string name;
    pb::Job job;
    std::uint64_t part;  // of its need
  };
  const std::vector<Case> cases = {
      {"cifar10_quick", job_of("cifar10_quick", {{{20, 3, 32, 32}, 0}, {{20}, 10}}), 2},
      {"resnet18", job_of("resnet18", {{{2, 3, 64, 64}, 0}, {{2}, 1000}}), 2},
      {"char_lstm", job_of("char_lstm", {{{50, 8}, 66}, {{50, 8}, 66}, {{50, 8}, 2}}), 2},
      // Much of it is never alive together.
      {"transformer", job_of("transformer", {{{64, 2}, 66}, {{64, 2}, 66}}), 4},
  };
  for (const auto& [name, job, part] : cases) {
    const std::uint64_t budget = need_of(job) / part;
    CAPTURE(name, budget);
    const auto host = cpu();
    const Tables expected = train(*host, job, 3).value();
    test::LateBackend late(*host, {});
    PlannedBackend planned(late, {.budget = Bytes(budget), .poison = true});
    const auto within = train(planned, job, 3);
    INFO((within ? std::string() : within.error().message));
    REQUIRE(within.has_value());
    check_same(within.value(), expected);
    CHECK(planned.cycle("training")->plan().moved_bytes().value() > 0);
    CHECK(planned.arena_bytes().value() <= budget);
  }
}

TEST_CASE("memory that operations need in addition to their operands counts", "[budget]") {
  const auto host = cpu();
  PlannedBackend unlimited(*host, {.budget = Bytes(1ULL << 34U)});
  REQUIRE(train(unlimited, lenet(), 0).has_value());
  const AccessTrace& trace = unlimited.cycle("training")->trace();
  std::uint64_t workspace = 0;
  for (const PlanBuffer& buffer : trace.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) workspace += buffer.bytes.value();
  }
  // Of each window of both poolings at least a byte says which element was chosen.
  CHECK(workspace >= 64 * (20 * 12 * 12 + 50 * 4 * 4));
}

TEST_CASE("two replicas share a budget and end in the same bits", "[budget]") {
  const pb::Job job = lenet();
  const auto host = cpu();
  const Tables expected = train(*host, job, 3, 2).value();
  PlannedBackend planned(*host, {.budget = Bytes(need_of(job) / 2), .poison = true});
  check_same(train(planned, job, 3, 2).value(), expected);
}

TEST_CASE("a budget that cannot work is refused before the first clock", "[budget]") {
  const auto host = cpu();
  PlannedBackend planned(*host, {.budget = Bytes(2'000'000)});
  const auto refused = train(planned, lenet(), 3);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find('\n') == std::string::npos);
  for (const char* part : {"step 'pooling forward into pool1' needs ", "'conv1' with 2949120 bytes",
                           "budget is 2000000 bytes"}) {
    CAPTURE(refused.error().message, part);
    CHECK(refused.error().message.find(part) != std::string::npos);
  }
}

}  // namespace taut
