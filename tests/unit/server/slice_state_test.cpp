#include "server/slice_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

using test::JobMaker;
using test::same_bits;

constexpr std::size_t kCount = 5;
constexpr Slack kAsync = Slack::unbounded();

/// One slice under a job that the test changes.
class OneSlice {
 public:
  explicit OneSlice(JobMaker maker, TableKind kind = TableKind::kTrained)
      : OneSlice(std::move(maker), test::make_table(0, {kCount}, kind)) {}
  OneSlice(JobMaker maker, const TableSpec& table)
      : job(std::move(maker)), view(job.view()), table_(table) {
    slice = std::make_unique<SliceState>(table_, place_, *view, pool_, view->policies.schedule());
  }

  PushVerdict push(std::uint32_t worker, std::int64_t clock, const std::vector<float>& gradient,
                   float norm = 0, float weight = 1) {
    return slice->push(WorkerId(worker), {Clock(clock), test::frame_of(gradient), norm, {}, weight},
                       *view, released);
  }
  PushVerdict push(std::uint32_t worker, std::int64_t clock) {
    return push(worker, clock, test::gradient_of(worker, clock, kCount));
  }
  std::optional<Answer> read(std::uint32_t worker, std::int64_t clock) {
    return slice->read({PeerId(worker + 1), WorkerId(worker), Clock(clock)}, *view);
  }
  void change() {
    view = job.view();
    slice->update(*view, released);
  }
  [[nodiscard]] std::vector<float> values() const {
    return test::floats_of(slice->snapshot(PeerId(99)).values);
  }
  [[nodiscard]] std::size_t used() const { return pool_.usage().used.value(); }
  /// The workers whose reads were released since the last call, ascending.
  [[nodiscard]] std::vector<std::uint32_t> take_released() {
    std::vector<std::uint32_t> workers;
    for (const Answer& answer : released) workers.push_back(answer.reader.worker.value());
    released.clear();
    std::ranges::sort(workers);
    return workers;
  }

  JobMaker job;
  std::shared_ptr<const JobView> view;
  std::vector<Answer> released;
  std::unique_ptr<SliceState> slice;

 private:
  BufferPool pool_;
  const TableSpec table_;
  const Slice place_{TableId(0), SliceId(0), 0, kCount, ShardId(0)};
};

std::vector<float> initial() {
  std::vector<float> values(kCount);
  const TableSpec table = test::make_table(0, {kCount});
  math::fill(table.filler, 42, table.name, 0, values);
  return values;
}

/// w - 0.5 * (sum of gradients, in this order) / members
std::vector<float> descend(std::vector<float> values,
                           const std::vector<std::vector<float>>& gradients, std::size_t members,
                           std::int64_t clock = 0) {
  math::UpdateRule rule;
  rule.rate.base = 0.5;
  std::vector<math::GradientView> views;
  views.reserve(gradients.size());
  for (const auto& gradient : gradients) {
    views.push_back({std::as_bytes(std::span(gradient)).data(), 1.0F});
  }
  const auto step = math::make_step(rule, clock, 1, 1, 1, 0);
  math::apply_update(rule.kind, step, views, static_cast<float>(1.0 / static_cast<double>(members)),
                     values, values, {});
  return values;
}

std::vector<float> own(std::uint32_t worker, std::int64_t clock) {
  return test::gradient_of(worker, clock, kCount);
}

using Workers = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("initial values are a pure function of seed, table name, index and filler", "[slice]") {
  OneSlice one(JobMaker(1));
  CHECK(same_bits(one.values(), initial()));
  // A slice in the middle of a table holds the table's values from its offset on.
  BufferPool pool;
  const TableSpec table = test::make_table(0, {kCount});
  const Slice part{TableId(0), SliceId(1), 2, 3, ShardId(0)};
  const SliceState middle(table, part, *one.view, pool, PushSchedule{});
  const auto whole = initial();
  CHECK(same_bits(test::floats_of(middle.snapshot(PeerId(1)).values),
                  std::span(whole).subspan(2, 3)));
}

TEST_CASE("a member's position is the clock that it computes, at most the slack ahead of V",
          "[slice]") {
  const Slack slack(2);
  OneSlice one(JobMaker(2, slack));
  const auto position = [&](std::uint32_t worker) {
    return one.slice->position(WorkerId(worker), slack);
  };
  CHECK(position(0).clock == Clock(0));
  CHECK_FALSE(position(0).waits);
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    one.push(0, clock);
    // The push has arrived, and its read has not.
    CHECK(position(0).clock <= Clock(2));
    const bool is_answered = one.read(0, clock + 1).has_value();
    CHECK(position(0).waits == !is_answered);
  }
  // done(0) is 3, and V is 0: it waits for the values of clock 3, one beyond the bound.
  CHECK(one.slice->done(WorkerId(0)) == Clock(3));
  CHECK(position(0).clock == Clock(2));
  CHECK(position(0).waits);
  CHECK(position(1).clock == Clock(0));
  one.push(1, 0);
  CHECK(position(0).clock == Clock(3));
  CHECK_FALSE(position(0).waits);
  CHECK(one.slice->position(WorkerId(0), kAsync).clock == Clock(3));
}

TEST_CASE("a push is accepted only when its clock equals done(w)", "[slice]") {
  OneSlice one(JobMaker(2, Slack(1)));
  CHECK(one.push(0, 1) == PushVerdict::kAhead);
  CHECK(one.slice->done(WorkerId(0)) == Clock(0));
  CHECK(same_bits(one.values(), initial()));
  CHECK(one.push(0, 0) == PushVerdict::kAccept);
  CHECK(one.slice->done(WorkerId(0)) == Clock(1));
  const auto once = one.values();
  CHECK(one.push(0, 0) == PushVerdict::kDuplicate);
  CHECK(same_bits(one.values(), once));
  CHECK(one.slice->done(WorkerId(0)) == Clock(1));
}

TEST_CASE("each push is applied exactly once, in whatever order and however often it arrives",
          "[slice]") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::int64_t kClocks = 20;
  for (int round = 0; round < 20; ++round) {
    OneSlice one(JobMaker(3, Slack(0)));
    // Every push goes out again and again until all were accepted, in random order.
    while (one.slice->version() < Clock(kClocks)) {
      const auto worker = static_cast<std::uint32_t>(random() % 3);
      one.push(worker, static_cast<std::int64_t>(random() % kClocks));
    }
    auto expected = initial();
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      expected = descend(expected, {own(0, clock), own(1, clock), own(2, clock)}, 3, clock);
    }
    REQUIRE(same_bits(one.values(), expected));
  }
}

TEST_CASE("BSP sums a clock in worker order: the bits are the same for every order of arrival",
          "[slice]") {
  Workers order = {0, 1, 2, 3};
  const auto expected = descend(initial(), {own(0, 0), own(1, 0), own(2, 0), own(3, 0)}, 4);
  // The premise: another order of the sum gives other bits.
  CHECK_FALSE(
      same_bits(expected, descend(initial(), {own(3, 0), own(0, 0), own(2, 0), own(1, 0)}, 4)));
  do {
    OneSlice one(JobMaker(4));
    for (const std::uint32_t worker : order) {
      CHECK(same_bits(one.values(), initial()));
      one.push(worker, 0);
    }
    CHECK(same_bits(one.values(), expected));
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("BSP holds a fast worker's next update until its clock is complete", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  one.push(0, 1);
  one.push(0, 2);
  CHECK(one.slice->version() == Clock(0));
  CHECK(same_bits(one.values(), initial()));
  one.push(1, 0);
  CHECK(one.slice->version() == Clock(1));
  const auto first = descend(initial(), {own(0, 0), own(1, 0)}, 2);
  CHECK(same_bits(one.values(), first));
  one.push(1, 1);
  CHECK(same_bits(one.values(), descend(first, {own(0, 1), own(1, 1)}, 2, 1)));
}

TEST_CASE("a read is answered exactly when V >= c - s and done(reader) >= c", "[slice]") {
  for (const std::int64_t slack : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}}) {
    for (std::int64_t ahead = 0; ahead <= 5; ++ahead) {
      CAPTURE(slack, ahead);
      OneSlice one(JobMaker(2, Slack(slack)));
      for (std::int64_t clock = 0; clock < ahead; ++clock) one.push(0, clock);
      CHECK(one.read(0, ahead).has_value() == (ahead <= slack));
      // Own updates up to c - 1 must have been accepted, whatever V says.
      CHECK_FALSE(one.read(0, ahead + 1).has_value());
    }
  }
}

TEST_CASE("ASYNC never waits, but a reader always reads its own writes", "[slice]") {
  OneSlice one(JobMaker(2, kAsync));
  for (std::int64_t clock = 0; clock < 9; ++clock) one.push(0, clock);
  const auto answer = one.read(0, 9);
  REQUIRE(answer);
  CHECK(answer->version == Clock(0));
  CHECK(answer->done == Clock(9));
  auto expected = initial();
  for (std::int64_t clock = 0; clock < 9; ++clock) {
    expected = descend(expected, {own(0, clock)}, 2, clock);
  }
  CHECK(same_bits(test::floats_of(answer->values), expected));
  CHECK_FALSE(one.read(0, 10));
  one.push(0, 9);
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("an answer carries V and done(reader)", "[slice]") {
  OneSlice one(JobMaker(2, Slack(3)));
  one.push(0, 0);
  one.push(0, 1);
  one.push(1, 0);
  const auto answer = one.read(0, 2);
  REQUIRE(answer);
  CHECK(answer->version == Clock(1));
  CHECK(answer->done == Clock(2));
  CHECK(answer->reader.clock == Clock(2));
}

TEST_CASE("members read values as the job's compression says, encoded once for each application",
          "[slice][compression]") {
  for (const auto scheme :
       {pb::PullCompression::FP16, pb::PullCompression::BF16, pb::PullCompression::INT8}) {
    JobMaker maker(2);
    auto& pull = *maker.state.mutable_definition()->mutable_compression()->add_pull();
    pull.set_scheme(scheme);
    pull.set_min_values(1);
    OneSlice one(std::move(maker));
    for (std::int64_t clock = 0; clock < 3; ++clock) {
      // In BSP there is one application a clock.
      const math::Encoding encoding = one.view->compression.of_pull(test::make_table(0, {kCount}));
      std::vector<std::byte> expected(math::encoded_bytes(encoding, kCount));
      math::encode(encoding, one.values(),
                   math::draw_of(42, static_cast<std::uint64_t>(clock), 65535, 0, 0),
                   expected.data());
      const auto first = one.read(0, clock);
      const auto second = one.read(1, clock);
      REQUIRE(first.has_value());
      REQUIRE(second.has_value());
      CHECK(first->encoding == encoding);
      CHECK(std::ranges::equal(first->values.bytes(), expected));
      CHECK(first->values.bytes().data() == second->values.bytes().data());
      // Whoever is no member gets them as they are.
      const Answer snapshot = one.slice->snapshot(PeerId(9));
      CHECK(snapshot.encoding == math::Encoding());
      CHECK(snapshot.values.size() == kCount * sizeof(float));
      const auto followed = one.slice->follow(PeerId(9), Clock(clock));
      REQUIRE(followed.has_value());
      CHECK(followed->encoding == math::Encoding());
      one.push(0, clock);
      one.push(1, clock);
    }
  }
}

TEST_CASE("every parked read that a rise of V satisfies is released, never only an exact match",
          "[slice]") {
  // Worker 4's loss makes V jump from 0 to 2: reads that need V >= 1 and V >= 2 are both released.
  OneSlice one(JobMaker(5, Slack(1)));
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    one.push(worker, 0);
    one.push(worker, 1);
  }
  one.push(0, 2);
  one.push(1, 2);
  CHECK_FALSE(one.read(0, 3));  // needs V >= 2
  CHECK_FALSE(one.read(1, 3));
  CHECK_FALSE(one.read(2, 2));  // needs V >= 1
  CHECK_FALSE(one.read(3, 2));
  CHECK(one.slice->parked() == 4);
  one.job.leave(WorkerId(4), Clock(0));
  one.change();
  CHECK(one.slice->version() == Clock(2));
  CHECK(one.take_released() == Workers{0, 1, 2, 3});
  CHECK(one.slice->parked() == 0);
}

TEST_CASE("a rise of V that does not satisfy a parked read leaves it parked", "[slice]") {
  OneSlice one(JobMaker(2, Slack(1)));
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock);
  CHECK_FALSE(one.read(0, 3));
  one.push(1, 0);
  CHECK(one.take_released().empty());
  one.push(1, 1);
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("a worker's newer read takes the place of its parked older one", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  CHECK_FALSE(one.read(0, 1));
  one.push(0, 1);
  CHECK_FALSE(one.read(0, 2));
  CHECK(one.slice->parked() == 1);
  one.push(1, 0);
  CHECK(one.take_released().empty());
  one.push(1, 1);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.clock == Clock(2));
}

TEST_CASE("a late copy of an older read that can be answered does not lose the parked newer one",
          "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  one.push(1, 0);
  CHECK(one.read(0, 1));
  one.push(0, 1);
  CHECK_FALSE(one.read(0, 2));
  CHECK(one.read(0, 1));
  one.push(1, 1);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.clock == Clock(2));
}

TEST_CASE("a late copy of an older read that must wait does not lose the parked newer one",
          "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  one.push(0, 1);
  CHECK_FALSE(one.read(0, 2));
  CHECK_FALSE(one.read(0, 1));
  one.push(1, 0);
  one.push(1, 1);
  REQUIRE_FALSE(one.released.empty());
  CHECK(one.released.back().reader.clock == Clock(2));
}

TEST_CASE("a parked read is answered to the connection that requested it last", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  CHECK_FALSE(one.slice->read({PeerId(5), WorkerId(0), Clock(1)}, *one.view));
  CHECK_FALSE(one.slice->read({PeerId(6), WorkerId(0), Clock(1)}, *one.view));
  one.push(1, 0);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.peer == PeerId(6));
}

TEST_CASE("raising the slack releases the parked reads that it now allows", "[slice]") {
  OneSlice one(JobMaker(3, Slack(1)));
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock);
  for (std::int64_t clock = 0; clock < 5; ++clock) one.push(1, clock);
  CHECK_FALSE(one.read(0, 3));
  CHECK_FALSE(one.read(1, 5));
  one.job.state.set_slack(3);
  one.change();
  CHECK(one.take_released() == Workers{0});
  one.job.state.set_slack(kAsync.clocks());
  one.change();
  CHECK(one.take_released() == Workers{1});
}

TEST_CASE("lowering the slack takes effect at the next read", "[slice]") {
  OneSlice one(JobMaker(2, Slack(3)));
  for (std::int64_t clock = 0; clock < 4; ++clock) one.push(0, clock);
  CHECK_FALSE(one.read(0, 4));  // parked under slack 3: needs V >= 1
  one.job.state.set_slack(1);
  one.change();
  one.push(1, 0);
  CHECK(one.take_released() == Workers{0});
  one.push(0, 4);
  CHECK_FALSE(one.read(0, 5));  // under slack 1: needs V >= 4
  for (std::int64_t clock = 1; clock < 3; ++clock) one.push(1, clock);
  CHECK(one.take_released().empty());
  one.push(1, 3);
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("a change from BSP to SSP reads with slack 0 until the first update on arrival",
          "[slice]") {
  JobMaker maker(2);
  maker.mode_from(Clock(2), pb::ModeChange::ON_ARRIVAL);
  maker.state.set_slack(3);
  OneSlice one(maker);
  one.push(0, 0);
  CHECK_FALSE(one.read(0, 1));
  one.push(1, 0);
  one.push(0, 1);
  // Its own update 1 is part of an aggregate: only slack 0 shows it.
  CHECK_FALSE(one.read(0, 2));
  one.push(1, 1);
  CHECK(one.take_released() == Workers{0, 0});
  const auto both = one.values();
  one.push(0, 2);
  CHECK(same_bits(one.values(), descend(both, {own(0, 2)}, 2, 2)));
  CHECK(one.read(0, 3));
}

TEST_CASE("own writes that wait for an aggregate are read only once they are applied", "[slice]") {
  JobMaker maker(2);
  maker.mode_from(Clock(2), pb::ModeChange::ON_ARRIVAL);
  maker.state.set_slack(kAsync.clocks());
  OneSlice one(maker);
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock);
  // Update 2 is to be applied on arrival, but aggregates 0 and 1 come before it.
  CHECK_FALSE(one.read(0, 3));
  one.push(1, 0);
  CHECK(one.take_released().empty());
  one.push(1, 1);
  REQUIRE(one.released.size() == 1);
  auto expected = descend(initial(), {own(0, 0), own(1, 0)}, 2);
  expected = descend(expected, {own(0, 1), own(1, 1)}, 2, 1);
  CHECK(same_bits(test::floats_of(one.released[0].values), descend(expected, {own(0, 2)}, 2, 2)));
}

TEST_CASE("a change from SSP to BSP aggregates from its clock on, whatever the slack is",
          "[slice]") {
  JobMaker maker(2, Slack(3));
  maker.mode_from(Clock(2), pb::ModeChange::AGGREGATE);
  OneSlice one(maker);
  one.push(0, 0);
  one.push(0, 1);
  CHECK(one.read(0, 2));
  auto expected = descend(initial(), {own(0, 0)}, 2);
  expected = descend(expected, {own(0, 1)}, 2, 1);
  one.push(0, 2);
  CHECK(same_bits(one.values(), expected));
  CHECK_FALSE(one.read(0, 3));
  // The slower worker's updates of the clocks before are applied on arrival, as before.
  one.push(1, 0);
  expected = descend(expected, {own(1, 0)}, 2);
  CHECK(same_bits(one.values(), expected));
  one.push(1, 1);
  expected = descend(expected, {own(1, 1)}, 2, 1);
  one.push(1, 2);
  CHECK(one.take_released() == Workers{0});
  CHECK(same_bits(one.values(), descend(expected, {own(0, 2), own(1, 2)}, 2, 2)));
}

TEST_CASE("a lost worker leaves from the cut: its held updates from there on are dropped",
          "[slice]") {
  OneSlice one(JobMaker(3));
  one.push(2, 0);
  one.push(2, 1);
  one.push(0, 0);
  one.push(0, 1);
  one.job.fence(WorkerId(2));
  one.change();
  // Fenced, but without a cut it still counts.
  CHECK(one.slice->version() == Clock(0));
  one.job.leave(WorkerId(2), Clock(1));
  one.change();
  CHECK(same_bits(one.values(), initial()));
  // Below the cut its update takes part, and the sum is divided by three.
  one.push(1, 0);
  auto expected = descend(initial(), {own(0, 0), own(1, 0), own(2, 0)}, 3);
  CHECK(same_bits(one.values(), expected));
  // From the cut on it does not, and the sum is divided by the two that remain.
  one.push(1, 1);
  expected = descend(expected, {own(0, 1), own(1, 1)}, 2, 1);
  CHECK(same_bits(one.values(), expected));
  CHECK(one.slice->version() == Clock(2));
}

TEST_CASE("a loss completes the clocks that only waited for the lost worker, in order", "[slice]") {
  OneSlice one(JobMaker(3));
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    one.push(0, clock);
    one.push(1, clock);
  }
  CHECK_FALSE(one.read(0, 3));
  one.job.leave(WorkerId(2), Clock(0));
  one.change();
  auto expected = initial();
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    expected = descend(expected, {own(0, clock), own(1, clock)}, 2, clock);
  }
  CHECK(same_bits(one.values(), expected));
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("applied updates of a lost worker stay", "[slice]") {
  OneSlice one(JobMaker(2, Slack(5)));
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(1, clock);
  const auto before = one.values();
  one.job.leave(WorkerId(1), Clock(1));
  one.change();
  CHECK(same_bits(one.values(), before));
  // A survivor's update below the cut is divided by both members, from it on by one.
  one.push(0, 0);
  auto expected = descend(before, {own(0, 0)}, 2);
  CHECK(same_bits(one.values(), expected));
  one.push(0, 1);
  CHECK(same_bits(one.values(), descend(expected, {own(0, 1)}, 1, 1)));
}

TEST_CASE("the parked read of a fenced worker is forgotten", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  CHECK_FALSE(one.read(0, 1));
  one.job.fence(WorkerId(0));
  one.change();
  CHECK(one.slice->parked() == 0);
  one.push(1, 0);
  CHECK(one.take_released().empty());
}

TEST_CASE("a joining worker counts from its clock on", "[slice]") {
  OneSlice one(JobMaker(1));
  one.push(0, 0);
  const WorkerId joined = one.job.join(Clock(2));
  one.change();
  CHECK(one.slice->done(joined) == Clock(2));
  CHECK(one.push(joined.value(), 1) == PushVerdict::kDuplicate);
  one.push(0, 1);
  CHECK(one.slice->version() == Clock(2));
  auto expected = descend(descend(initial(), {own(0, 0)}, 1), {own(0, 1)}, 1, 1);
  CHECK(same_bits(one.values(), expected));
  one.push(0, 2);
  CHECK(same_bits(one.values(), expected));
  CHECK(one.push(joined.value(), 2) == PushVerdict::kAccept);
  CHECK(same_bits(one.values(), descend(expected, {own(0, 2), own(1, 2)}, 2, 2)));
  CHECK(one.slice->version() == Clock(3));
}

TEST_CASE("V never falls when a worker joins", "[slice]") {
  OneSlice one(JobMaker(1, kAsync));
  for (std::int64_t clock = 0; clock < 5; ++clock) one.push(0, clock);
  CHECK(one.slice->version() == Clock(5));
  one.job.join(Clock(7));
  one.change();
  CHECK(one.slice->version() == Clock(5));
}

TEST_CASE("a slice that is created after a worker has left does not wait for it", "[slice]") {
  JobMaker maker(2);
  maker.leave(WorkerId(1), Clock(0));
  OneSlice one(maker);
  one.push(0, 0);
  CHECK(one.slice->version() == Clock(1));
  CHECK(same_bits(one.values(), descend(initial(), {own(0, 0)}, 1)));
}

TEST_CASE("a snapshot never waits and never holds a writer back", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  const Answer early = one.slice->snapshot(PeerId(9));
  CHECK(early.version == Clock(0));
  CHECK(same_bits(test::floats_of(early.values), initial()));
  CHECK(one.push(1, 0) == PushVerdict::kAccept);
  CHECK(one.slice->snapshot(PeerId(9)).version == Clock(1));
  CHECK(same_bits(test::floats_of(early.values), initial()));
}

TEST_CASE("values that a reader received never change afterwards", "[slice]") {
  for (const char* solver : {"SGD", "Nesterov", "Adam"}) {
    CAPTURE(solver);
    JobMaker maker(1, Slack(1));
    maker.solver().set_type(solver);
    maker.solver().set_momentum(0.9F);
    OneSlice one(maker);
    std::vector<std::pair<Frame, std::vector<float>>> given;
    for (std::int64_t clock = 0; clock < 6; ++clock) {
      const auto answer = one.read(0, clock);
      REQUIRE(answer);
      given.emplace_back(answer->values, test::floats_of(answer->values));
      one.push(0, clock);
      CHECK_FALSE(same_bits(one.values(), given.back().second));
      for (const auto& [frame, seen] : given) CHECK(same_bits(test::floats_of(frame), seen));
    }
  }
}

TEST_CASE("values that a checkpoint received never change, however many there are", "[slice]") {
  JobMaker job(1, kAsync);
  job.solver().set_type("Adam");
  job.solver().set_momentum(0.9F);
  job.state.mutable_definition()->mutable_consistency()->mutable_delay_compensation()->set_decay(
      0.9F);
  OneSlice one(std::move(job));
  const auto bits_of = [](const SliceImage& image) {
    std::vector<std::vector<float>> all;
    all.emplace_back(image.values.floats().begin(), image.values.floats().end());
    for (const Buffer& state : image.states) {
      all.emplace_back(state.floats().begin(), state.floats().end());
    }
    return all;
  };
  std::vector<SliceImage> images;
  std::vector<std::vector<std::vector<float>>> as_taken;
  std::vector<std::vector<float>> as_read;
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    // The second and third order find a slice that nothing has written to since the first.
    for (int again = 0; clock % 2 == 1 && again < 3; ++again) {
      pb::CheckpointOrder& order = *one.job.state.mutable_checkpoint();
      order.set_number(order.number() + 1);
      order.set_clock(clock);
      one.change();
      REQUIRE(one.slice->capture() == SliceCapture::State::kReady);
      images.push_back(one.slice->take_image());
      as_taken.push_back(bits_of(images.back()));
      as_read.push_back(one.values());
      CHECK(as_taken.back().size() == 4);  // values, both moments, the mean square
    }
    REQUIRE(one.read(0, clock).has_value());
    REQUIRE(one.push(0, clock) == PushVerdict::kAccept);
  }
  REQUIRE(images.size() == 9);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto now = bits_of(images[i]);
    for (std::size_t k = 0; k < now.size(); ++k) CHECK(same_bits(now[k], as_taken[i][k]));
    CHECK(same_bits(now[0], as_read[i]));
  }
  CHECK_FALSE(same_bits(as_read.front(), as_read.back()));
}

TEST_CASE("an update that does not change the mean square takes no memory from the next one",
          "[slice]") {
  JobMaker job(2, kAsync);
  job.state.mutable_definition()->mutable_consistency()->mutable_delay_compensation()->set_decay(
      0.9F);
  OneSlice one(std::move(job));
  REQUIRE(one.read(0, 0).has_value());
  REQUIRE(one.push(0, 0) == PushVerdict::kAccept);
  REQUIRE(one.read(0, 1).has_value());
  one.job.state.mutable_checkpoint()->set_number(1);
  one.change();
  REQUIRE(one.slice->capture() == SliceCapture::State::kReady);
  const SliceImage image = one.slice->take_image();
  const std::vector<float> taken(image.states.back().floats().begin(),
                                 image.states.back().floats().end());
  // This worker has read nothing, so its gradient is taken as it is.
  REQUIRE(one.push(1, 0) == PushVerdict::kAccept);
  REQUIRE(one.push(0, 1) == PushVerdict::kAccept);
  const std::vector<float> now(image.states.back().floats().begin(),
                               image.states.back().floats().end());
  CHECK(same_bits(now, taken));
}

TEST_CASE("a slice without an image is overwritten in place", "[slice]") {
  JobMaker job(1, kAsync);
  job.solver().set_momentum(0.9F);
  OneSlice one(std::move(job));
  REQUIRE(one.push(0, 0) == PushVerdict::kAccept);
  const auto used = one.used();
  pb::CheckpointOrder& order = *one.job.state.mutable_checkpoint();
  order.set_number(1);
  order.set_clock(1);
  one.change();
  {
    const SliceImage image = one.slice->take_image();
    REQUIRE(one.push(0, 1) == PushVerdict::kAccept);
    CHECK(one.used() == 2 * used);
  }
  CHECK(one.used() == used);
  REQUIRE(one.push(0, 2) == PushVerdict::kAccept);
  CHECK(one.used() == used);
}

TEST_CASE("a shard divides by the members, or sums if the job requests it", "[slice]") {
  JobMaker maker(2);
  maker.state.mutable_definition()->set_reduction(pb::Job::SUM);
  OneSlice one(maker);
  one.push(0, 0);
  one.push(1, 0);
  CHECK(same_bits(one.values(), descend(initial(), {own(0, 0), own(1, 0)}, 1)));
}

TEST_CASE("weight decay applies once per clock in total", "[slice]") {
  JobMaker maker(4, kAsync);
  maker.solver().set_weight_decay(0.25F);
  OneSlice arrivals(maker);
  OneSlice aggregate([] {
    JobMaker bsp(4);
    bsp.solver().set_weight_decay(0.25F);
    return bsp;
  }());
  const std::vector<float> zero(kCount, 0.0F);
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    arrivals.push(worker, 0, zero);
    aggregate.push(worker, 0, zero);
  }
  const auto start = initial();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(aggregate.values()[i] == Approx(start[i] * (1 - 0.5 * 0.25)).epsilon(1e-5));
    CHECK(arrivals.values()[i] == Approx(start[i] * std::pow(1 - 0.125 / 4, 4)).epsilon(1e-5));
  }
}

TEST_CASE("the learning rate is that of the update's clock, not of its arrival", "[slice]") {
  JobMaker maker(2, kAsync);
  maker.solver().set_lr_policy("step");
  maker.solver().set_stepsize(1);
  maker.solver().set_gamma(0.5F);
  OneSlice one(maker);
  const std::vector<float> unit(kCount, 1.0F);
  const std::vector<float> zero(kCount, 0.0F);
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock, zero);
  const auto before = one.values();
  one.push(1, 0, unit);  // late, at clock 0: 0.5 / 2
  const auto after = one.values();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(before[i] - after[i] == Approx(0.25).margin(1e-6));
  }
}

TEST_CASE("clipping scales only the worker's own gradient", "[slice]") {
  JobMaker maker(2);
  maker.solver().set_clip_gradients(2);
  OneSlice one(maker);
  const std::vector<float> unit(kCount, 1.0F);
  one.push(0, 0, unit, 8);  // of a norm four times too large: it counts a quarter
  one.push(1, 0, unit, 2);
  const auto start = initial();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(one.values()[i] == Approx(start[i] - 0.5 * 1.25 / 2).margin(1e-6));
  }
}

TEST_CASE("tables of running statistics are averaged, not descended", "[slice]") {
  const std::vector<float> four(kCount, 4.0F);
  const std::vector<float> two(kCount, 2.0F);
  OneSlice bsp(JobMaker(2), TableKind::kAveraged);
  bsp.push(0, 0, four);
  bsp.push(1, 0, two);
  CHECK(bsp.values() == std::vector<float>(kCount, 3.0F));

  OneSlice async(JobMaker(2, kAsync), TableKind::kAveraged);
  const auto start = async.values();
  async.push(0, 0, four);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(async.values()[i] == Approx((start[i] + 4) / 2));
  }
}

TEST_CASE("clipping the gradient does not change running statistics", "[slice]") {
  const std::vector<float> four(kCount, 4.0F);
  JobMaker maker(1);
  maker.solver().set_clip_gradients(2);
  OneSlice one(maker, TableKind::kAveraged);
  one.push(0, 0, four, 8);
  CHECK(one.values() == four);
}

TEST_CASE("a refused update counts as pushed, changes nothing and is not in the divisor",
          "[slice]") {
  const float kBad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity());
  JobMaker maker(3);
  maker.solver().set_momentum(0.9F);
  maker.solver().set_weight_decay(0.01F);
  maker.state.mutable_definition()->set_on_bad_update(pb::Job::REFUSE);
  OneSlice one(maker);
  // The others' bits are what they are without it.
  JobMaker pair(2);
  pair.solver() = maker.solver();
  OneSlice without(pair);
  for (int clock = 0; clock < 3; ++clock) {
    std::vector<float> bad = test::gradient_of(2, clock, kCount);
    bad.back() = kBad;
    one.push(2, clock, bad);
    for (const std::uint32_t worker : {0U, 1U}) {
      one.push(worker, clock);
      without.push(worker, clock);
    }
    CHECK(one.slice->version() == Clock(clock + 1));
  }
  CHECK(same_bits(one.values(), without.values()));
  CHECK(one.slice->bad_updates() == std::map<WorkerId, std::uint64_t>{{WorkerId(2), 3}});
  // Where all are bad the values stay.
  const std::vector<float> before = one.values();
  for (const std::uint32_t worker : {0U, 1U, 2U}) one.push(worker, 3, std::vector(kCount, kBad));
  CHECK(one.slice->version() == Clock(4));
  CHECK(same_bits(one.values(), before));
}

TEST_CASE("on arrival a refused update changes nothing", "[slice]") {
  JobMaker maker(2, kAsync);
  maker.state.mutable_definition()->set_on_bad_update(pb::Job::QUARANTINE);
  OneSlice one(maker);
  one.push(0, 0, std::vector(kCount, std::numeric_limits<float>::infinity()));
  CHECK(one.values() == initial());
  CHECK(one.slice->done(WorkerId(0)) == Clock(1));
  one.push(0, 1);
  CHECK(one.values() != initial());
}

TEST_CASE("without a policy a bad update is applied, and the loss shows it", "[slice]") {
  OneSlice one(JobMaker(1));
  one.push(0, 0, std::vector(kCount, std::numeric_limits<float>::infinity()));
  CHECK_FALSE(std::isfinite(one.values()[0]));
  CHECK(one.slice->bad_updates().empty());
}

TEST_CASE("frozen tables take no part: they are read at clock 0 and never change", "[slice]") {
  OneSlice one(JobMaker(2), TableKind::kFrozen);
  CHECK(one.read(0, 0));
  one.push(0, 0);
  one.push(1, 0);
  CHECK(same_bits(one.values(), initial()));
  CHECK(one.read(0, 0));
}

TEST_CASE("a table's learning rate and decay are multiplied by its own factors", "[slice]") {
  TableSpec table = test::make_table(0, {static_cast<std::int64_t>(kCount)});
  table.lr_mult = 0;
  OneSlice still(JobMaker(1), table);
  still.push(0, 0);
  CHECK(still.values() == initial());

  JobMaker maker(1);
  maker.solver().set_weight_decay(0.5F);
  table.lr_mult = 1;
  table.decay_mult = 0;
  OneSlice undecayed(maker, table);
  undecayed.push(0, 0);
  CHECK(same_bits(undecayed.values(), descend(initial(), {own(0, 0)}, 1)));
}

TEST_CASE("the first initial values of clock 0 are the slice's, and no step of the rule",
          "[slice]") {
  const auto seeded = [](Slack slack) {
    JobMaker job(2, slack);
    job.state.mutable_definition()->set_external_members(true);
    return job;
  };
  const std::vector<float> first{1, 2, 3, 4, 5};
  const std::vector<float> second{9, 9, 9, 9, 9};
  SECTION("in BSP those of the lowest worker, whoever comes first") {
    OneSlice one(seeded(Slack(0)));
    CHECK(one.push(1, 0, second) == PushVerdict::kAccept);
    CHECK(one.push(0, 0, first) == PushVerdict::kAccept);
    CHECK(same_bits(one.values(), first));
    one.push(0, 1, second);
    one.push(1, 1, second);
    CHECK(same_bits(one.values(), descend(first, {second, second}, 2)));
  }
  SECTION("on arrival those that come first") {
    OneSlice one(seeded(kAsync));
    one.push(1, 0, first);
    one.push(1, 1, second);
    const std::vector<float> trained = one.values();
    CHECK(same_bits(trained, descend(first, {second}, 2)));
    one.push(0, 0, second);
    CHECK(same_bits(one.values(), trained));
  }
}

TEST_CASE("tables of the job's text start from their fillers, and their first step is clock 1's",
          "[slice]") {
  JobMaker maker(2, Slack(0));
  pb::Job& definition = *maker.state.mutable_definition();
  definition.set_external_members(true);
  pb::JobTable& named = *definition.add_tables();
  named.set_name("table0");
  named.add_shape(static_cast<std::int64_t>(kCount));
  for (pb::Member& member : *maker.state.mutable_members()) member.set_join_clock(1);
  OneSlice one(maker);
  CHECK(same_bits(one.values(), initial()));
  CHECK(one.read(0, 1));
  const std::vector<float> gradient{1, 2, 3, 4, 5};
  CHECK(one.push(0, 1, gradient) == PushVerdict::kAccept);
  CHECK(one.push(1, 1, gradient) == PushVerdict::kAccept);
  CHECK(same_bits(one.values(), descend(initial(), {gradient, gradient}, 2)));
}

TEST_CASE("updates count by their weights, in an aggregate and on arrival", "[slice]") {
  // Three quarters of a batch, and one quarter.
  const std::vector<float> a{1, 2, 3, 4, 5};
  const std::vector<float> b{-8, 0, 8, 16, 0.5F};
  const auto expected = [&](const std::vector<float>& from, double of_a, double of_b) {
    std::vector<float> values = from;
    for (std::size_t i = 0; i < kCount; ++i) {
      values[i] = static_cast<float>(values[i] - 0.5 * (of_a * a[i] + of_b * b[i]));
    }
    return values;
  };
  const auto check = [&](const OneSlice& one, const std::vector<float>& values) {
    for (std::size_t i = 0; i < kCount; ++i) CHECK(one.values()[i] == Approx(values[i]));
  };
  SECTION("an aggregate is the weighted mean") {
    OneSlice one(JobMaker(2));
    one.push(1, 0, b, 0, 0.5F);
    one.push(0, 0, a, 0, 1.5F);
    check(one, expected(initial(), 0.75, 0.25));
  }
  SECTION("also where a member with a large share was lost before the shares were decided again") {
    JobMaker maker(3);
    OneSlice one(maker);
    one.job.leave(WorkerId(2), Clock(0));
    one.change();
    one.push(0, 0, a, 0, 0.75F);
    one.push(1, 0, b, 0, 0.25F);
    check(one, expected(initial(), 0.75, 0.25));
  }
  SECTION("on arrival each counts by its share of the batch") {
    OneSlice one(JobMaker(2, kAsync));
    one.push(0, 0, a, 0, 1.5F);
    check(one, expected(initial(), 0.75, 0));
    one.push(1, 0, b, 0, 0.5F);
    check(one, expected(initial(), 0.75, 0.25));
  }
  SECTION("clipping looks at a gradient, and not at its weight") {
    JobMaker maker(2);
    maker.solver().set_clip_gradients(1);
    OneSlice one(maker);
    one.push(0, 0, a, 4, 1.5F);
    one.push(1, 0, b, 0.5F, 0.5F);
    check(one, expected(initial(), 0.75 / 4, 0.25));
  }
  SECTION("weight decay acts once a clock") {
    for (const Slack slack : {Slack(0), kAsync}) {
      JobMaker maker(2, slack);
      maker.solver().set_weight_decay(0.125F);
      maker.solver().set_type("SGD");
      OneSlice one(maker);
      const std::vector<float> none(kCount, 0.0F);
      one.push(0, 0, none, 0, 1.5F);
      one.push(1, 0, none, 0, 0.5F);
      const std::vector<float> begin = initial();
      for (std::size_t i = 0; i < kCount; ++i) {
        const double once = slack == Slack(0) ? 1 - 0.5 * 0.125
                                              : (1 - 0.5 * 0.125 * 0.75) * (1 - 0.5 * 0.125 * 0.25);
        CHECK(one.values()[i] == Approx(begin[i] * once));
      }
    }
  }
}

TEST_CASE("weights of 1 change no bit", "[slice]") {
  for (const Slack slack : {Slack(0), kAsync}) {
    OneSlice plain(JobMaker(3, slack));
    OneSlice weighted(JobMaker(3, slack));
    for (std::int64_t clock = 0; clock < 3; ++clock) {
      for (std::uint32_t worker = 0; worker < 3; ++worker) {
        plain.push(worker, clock);
        weighted.push(worker, clock, own(worker, clock), 0, 1);
      }
    }
    CHECK(same_bits(plain.values(), weighted.values()));
  }
}

TEST_CASE("running statistics are the weighted mean of the members'", "[slice]") {
  const std::vector<float> a{1, 2, 3, 4, 5};
  const std::vector<float> b{-8, 0, 8, 16, 0.5F};
  OneSlice bsp(JobMaker(2), TableKind::kAveraged);
  bsp.push(0, 0, a, 0, 1.5F);
  bsp.push(1, 0, b, 0, 0.5F);
  OneSlice async(JobMaker(2, kAsync), TableKind::kAveraged);
  async.push(0, 0, a, 0, 1.5F);
  const std::vector<float> begin = initial();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(bsp.values()[i] == Approx(0.75 * a[i] + 0.25 * b[i]));
    CHECK(async.values()[i] == Approx(begin[i] + 0.75 * (a[i] - begin[i])));
  }
}

}  // namespace taut::server
