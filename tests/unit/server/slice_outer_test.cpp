// An outer rule, a slack of meetings, a buffer and fragments, at one slice.
#include <cmath>
#include <string>
#include <vector>

#include "server/slice_state.hpp"
#include "server/tables/table_memory.hpp"
#include "tests/unit/server/job_maker.hpp"
#include "tests/unit/server/outer_rules.hpp"

using namespace taut;
using namespace taut::server;
using test::JobMaker;

namespace {

constexpr std::int64_t kInterval = 4;

/// slack  in meetings
JobMaker meeting(int members, Slack slack = Slack(0)) {
  JobMaker maker(members, slack);
  pb::Consistency& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_mode(slack == Slack(0)             ? pb::Consistency::BSP
                       : slack == Slack::unbounded() ? pb::Consistency::ASYNC
                                                     : pb::Consistency::SSP);
  consistency.mutable_periodic_averaging()->set_interval(kInterval);
  maker.solver().set_max_iter(100);
  return maker;
}

pb::OuterOptimizer& outer_of(JobMaker& maker) {
  return *maker.state.mutable_definition()
              ->mutable_consistency()
              ->mutable_periodic_averaging()
              ->mutable_outer();
}

/// One slice of one element that starts at 0.5.
class Scalar {
 public:
  explicit Scalar(JobMaker maker, std::uint32_t fragment = 0)
      : job(std::move(maker)), view(job.view()), fragment_(fragment) {
    TableSpec table = test::make_table(0, {1});
    table.filler = {math::Filler::Kind::kConstant, 0.5F, 0};
    slice = std::make_unique<SliceState>(table, Slice{TableId(0), SliceId(0), 0, 1, ShardId(0)},
                                         *view, pool_, schedule());
  }
  [[nodiscard]] PushSchedule schedule() const {
    return view->policies.schedule().of_fragment(fragment_);
  }
  /// What a worker has gone, at the end of its clock's interval.
  PushVerdict push(std::uint32_t worker, std::int64_t clock, float distance) {
    return slice->push(WorkerId(worker), {Clock(clock), test::frame_of({distance}), 0}, *view,
                       released);
  }
  /// NaN where it is parked.
  float read(std::uint32_t worker, std::int64_t clock) {
    const auto answer = slice->read({PeerId(worker + 1), WorkerId(worker), Clock(clock)}, *view);
    return answer ? test::floats_of(answer->values)[0] : std::nanf("");
  }
  [[nodiscard]] float value() const {
    return test::floats_of(slice->snapshot(PeerId(99)).values)[0];
  }
  void change() {
    view = job.view();
    slice->update(*view, released);
  }
  void order_checkpoint(std::int64_t clock) {
    job.state.mutable_checkpoint()->set_number(1);
    job.state.mutable_checkpoint()->set_clock(clock);
    change();
  }

  JobMaker job;
  std::shared_ptr<const JobView> view;
  std::vector<Answer> released;
  std::unique_ptr<SliceState> slice;

 private:
  std::uint32_t fragment_;
  BufferPool pool_;
};

}  // namespace

TEST_CASE("in BSP the mean of how far workers have gone is the gradient of the outer rule",
          "[slice][outer]") {
  for (const std::string type :
       {"SGD", "Nesterov", "Adam", "AdamW", "AdaGrad", "RMSProp", "AdaDelta", "LAMB", "Lion"}) {
    for (const float momentum : {0.0F, 0.9F}) {
      CAPTURE(type, momentum);
      JobMaker maker = meeting(3);
      pb::OuterOptimizer& outer = outer_of(maker);
      outer.set_type(type);
      if (type != "AdaGrad" && type != "RMSProp") outer.set_momentum(momentum);
      Scalar one(maker);
      test::OuterReference rule(type, outer.lr(), outer.momentum(), outer.momentum2(),
                                outer.delta(), outer.rms_decay());
      float expected = 0.5F;
      for (std::int64_t round = 0; round < 6; ++round) {
        float sum = 0;
        for (std::uint32_t worker = 0; worker < 3; ++worker) {
          const float distance = test::gradient_of(worker, round, 1)[0];
          sum = worker == 0 ? distance : sum + distance;
          CHECK(one.push(worker, (round + 1) * kInterval - 1, distance) == PushVerdict::kAccept);
        }
        expected = rule.step(expected, sum * static_cast<float>(1.0 / 3));
        CHECK(test::same_bits(std::vector{one.value()}, std::vector{expected}));
        CHECK(one.read(0, (round + 1) * kInterval) == one.value());
      }
    }
  }
}

TEST_CASE("an outer rule that is plain SGD with rate 1 is the mean", "[slice][outer]") {
  JobMaker with = meeting(2);
  outer_of(with).set_type("SGD");
  outer_of(with).set_lr(1);
  outer_of(with).set_momentum(0);
  Scalar outer(with);
  Scalar mean(meeting(2));
  for (std::int64_t clock = 3; clock < 20; clock += kInterval) {
    for (std::uint32_t worker = 0; worker < 2; ++worker) {
      const float distance = test::gradient_of(worker, clock, 1)[0];
      outer.push(worker, clock, distance);
      mean.push(worker, clock, distance);
    }
    CHECK(test::same_bits(std::vector{outer.value()}, std::vector{mean.value()}));
  }
}

TEST_CASE("under a slack of meetings a worker continues while no other is further behind",
          "[slice][outer]") {
  JobMaker maker = meeting(2, Slack(2));
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_lr(1);
  outer_of(maker).set_momentum(0);
  Scalar one(maker);
  CHECK(one.view->slack == Slack(2 * kInterval));
  CHECK(one.read(0, 0) == 0.5F);
  for (std::int64_t meeting = 1; meeting <= 2; ++meeting) {
    one.push(0, meeting * kInterval - 1, 1);
    // Half of what the one of two has gone, and at once.
    CHECK(one.read(0, meeting * kInterval) == 0.5F - 0.5F * static_cast<float>(meeting));
  }
  // A third meeting ahead is beyond the bound, until the other has had its first.
  one.push(0, 3 * kInterval - 1, 1);
  CHECK(std::isnan(one.read(0, 3 * kInterval)));
  one.push(1, kInterval - 1, 1);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.worker == WorkerId(0));
  CHECK(one.value() == 0.5F - 4 * 0.5F);
}

TEST_CASE("a slack that is set between meetings counts meetings", "[slice][outer]") {
  JobMaker maker = meeting(2, Slack(1));
  outer_of(maker);
  Scalar one(maker);
  one.push(0, kInterval - 1, 1);
  one.push(0, 2 * kInterval - 1, 1);
  CHECK(std::isnan(one.read(0, 2 * kInterval)));
  one.job.state.set_slack(2);
  one.change();
  CHECK(one.released.size() == 1);
}

TEST_CASE("with a buffer the shared values move once for `buffer` updates", "[slice][outer]") {
  JobMaker maker = meeting(4, Slack::unbounded());
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_lr(1);
  outer_of(maker).set_momentum(0);
  outer_of(maker).set_buffer(3);
  Scalar one(maker);
  one.push(0, 3, 3);
  // Of the same worker too: it is not waited for.
  one.push(0, 7, 3);
  CHECK(one.value() == 0.5F);
  CHECK(one.slice->held() == 2);
  CHECK(one.read(0, 8) == 0.5F);
  one.push(2, 3, 6);
  CHECK(one.value() == 0.5F - 4);
  CHECK(one.slice->held() == 0);
}

TEST_CASE("a buffer weighs an update by the clocks since its worker's read", "[slice][outer]") {
  JobMaker maker = meeting(2, Slack::unbounded());
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_lr(1);
  outer_of(maker).set_momentum(0);
  outer_of(maker).set_buffer(2);
  maker.state.mutable_definition()->mutable_consistency()->set_staleness_exponent(0.5F);
  Scalar one(maker);
  CHECK(one.read(0, 0) == 0.5F);
  CHECK(one.read(1, 0) == 0.5F);
  for (std::int64_t meeting = 1; meeting <= 6; ++meeting) {
    one.push(0, meeting * kInterval - 1, 1);
    (void)one.read(0, meeting * kInterval);
  }
  const float before = one.value();
  // Three applications of two updates each, of two workers: three clocks.
  one.push(1, 3, 1);
  one.push(0, 7 * kInterval - 1, 1);
  CHECK(one.value() == Approx(before - (1 / std::sqrt(1 + 3.0) + 1) / 2));
}

TEST_CASE("a buffer weighs what a lost member has left in it, before and after its leave is known",
          "[slice][outer]") {
  const bool is_known = GENERATE(false, true);
  CAPTURE(is_known);
  JobMaker maker = meeting(2, Slack::unbounded());
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_lr(1);
  outer_of(maker).set_momentum(0);
  outer_of(maker).set_buffer(2);
  maker.state.mutable_definition()->mutable_consistency()->set_staleness_exponent(0.5F);
  Scalar one(maker);
  (void)one.read(0, 0);
  (void)one.read(1, 0);
  for (std::int64_t meeting = 1; meeting <= 6; ++meeting) {
    one.push(0, meeting * kInterval - 1, 1);
    (void)one.read(0, meeting * kInterval);
  }
  const float before = one.value();
  one.push(1, 3, 1);
  one.job.fence(WorkerId(1));
  one.change();
  CHECK(one.value() == before);
  if (is_known) {
    one.job.leave(WorkerId(1), Clock(4));
    one.change();
    // Alone in its application, which it makes half of: three applications of one update each.
    CHECK(one.value() == Approx(before - 1 / std::sqrt(1 + 1.5) / 2));
  } else {
    one.push(0, 7 * kInterval - 1, 1);
    CHECK(one.value() == Approx(before - (1 / std::sqrt(1 + 3.0) + 1) / 2));
  }
}

TEST_CASE(
    "what waits in a buffer takes effect at the job's end, at a checkpoint and when its "
    "worker leaves",
    "[slice][outer]") {
  JobMaker maker = meeting(2, Slack::unbounded());
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_lr(1);
  outer_of(maker).set_momentum(0);
  outer_of(maker).set_buffer(8);
  SECTION("at the end") {
    maker.solver().set_max_iter(6);
    Scalar one(maker);
    for (const std::int64_t clock : {3, 5}) one.push(0, clock, 8);
    one.push(1, 3, 8);
    CHECK(one.value() == 0.5F);
    one.push(1, 5, 8);
    CHECK(one.value() == 0.5F - 4);
    CHECK(one.slice->version() == Clock(6));
  }
  SECTION("at a checkpoint") {
    Scalar one(maker);
    one.order_checkpoint(4);
    one.push(0, 3, 8);
    CHECK(one.value() == 0.5F);
    one.push(1, 3, 8);
    CHECK(one.value() == 0.5F - 2);
    REQUIRE(one.slice->capture() == SliceCapture::State::kReady);
    const SliceImage image = one.slice->take_image();
    CHECK(image.done.at(WorkerId(0)) == Clock(4));
    // Not after it.
    one.push(0, 7, 8);
    CHECK(one.value() == 0.5F - 2);
  }
  SECTION("at a checkpoint that is ordered later") {
    Scalar one(maker);
    one.push(0, 3, 8);
    one.push(1, 3, 8);
    one.order_checkpoint(4);
    CHECK(one.value() == 0.5F - 2);
    CHECK(one.slice->capture() == SliceCapture::State::kReady);
  }
  SECTION("when its worker leaves") {
    Scalar one(maker);
    one.push(0, 3, 8);
    one.job.leave(WorkerId(0), Clock(4));
    one.change();
    CHECK(one.value() == 0.5F - 1);
  }
}

TEST_CASE("a worker that is lost between two meetings is not in the divisor of the next",
          "[slice][outer]") {
  JobMaker maker = meeting(3);
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_lr(1);
  outer_of(maker).set_momentum(0);
  Scalar one(maker);
  for (std::uint32_t worker = 0; worker < 3; ++worker) one.push(worker, 3, 3);
  CHECK(one.value() == 0.5F - 3);
  one.push(0, 7, 2);
  one.push(1, 7, 4);
  CHECK(one.value() == 0.5F - 3);
  one.job.leave(WorkerId(2), Clock(4));
  one.change();
  CHECK(one.value() == 0.5F - 6);
  CHECK(one.slice->version() == Clock(8));
}

TEST_CASE(
    "a fragment meets at an offset, and a worker that joins between waits for no meeting of "
    "its own",
    "[slice][outer]") {
  JobMaker maker = meeting(1);
  maker.state.mutable_definition()
      ->mutable_consistency()
      ->mutable_periodic_averaging()
      ->set_fragments(2);
  Scalar one(maker, 1);
  CHECK(one.push(0, 3, 1) == PushVerdict::kAhead);
  CHECK(one.push(0, 1, 1) == PushVerdict::kAccept);
  CHECK(one.slice->version() == Clock(2));
  // At clock 4 the other fragment has met; here nothing is missing before clock 5.
  const WorkerId joined = one.job.join(Clock(4));
  one.change();
  CHECK(one.read(1, 4) == one.value());
  CHECK(one.push(joined.value(), 5, 1) == PushVerdict::kAccept);
  CHECK(one.push(0, 5, 1) == PushVerdict::kAccept);
  CHECK(one.slice->version() == Clock(6));
  // One that leaves before the next meeting owes none.
  one.job.leave(joined, Clock(8));
  one.change();
  CHECK(one.push(0, 9, 1) == PushVerdict::kAccept);
  CHECK(one.slice->version() == Clock(10));
}

TEST_CASE("a checkpoint has a fragment as it was after its last meeting, with the outer state",
          "[slice][outer]") {
  JobMaker maker = meeting(1);
  outer_of(maker);
  maker.state.mutable_definition()
      ->mutable_consistency()
      ->mutable_periodic_averaging()
      ->set_fragments(2);
  Scalar one(maker, 1);
  one.order_checkpoint(8);
  one.push(0, 1, 1);
  CHECK(one.slice->capture() == SliceCapture::State::kDue);
  one.push(0, 5, 1);
  REQUIRE(one.slice->capture() == SliceCapture::State::kReady);
  const SliceImage image = one.slice->take_image();
  CHECK(image.version == Clock(6));
  CHECK(image.states.size() == 1);
  // A slice that starts from it gets the same bits.
  SliceImage begin = image;
  begin.version = Clock(8);
  begin.done = {{WorkerId(0), Clock(8)}};
  BufferPool pool;
  TableSpec table = test::make_table(0, {1});
  SliceState resumed(table, Slice{TableId(0), SliceId(0), 0, 1, ShardId(0)}, *one.view, pool,
                     one.schedule(), &begin);
  one.push(0, 9, 0.25F);
  std::vector<Answer> released;
  CHECK(resumed.push(WorkerId(0), {Clock(9), test::frame_of({0.25F}), 0}, *one.view, released) ==
        PushVerdict::kAccept);
  CHECK(test::same_bits(test::floats_of(resumed.snapshot(PeerId(1)).values),
                        std::vector{one.value()}));
}

TEST_CASE("a member that has reached the bound in meetings waits, before its read arrives",
          "[slice][averaging]") {
  JobMaker maker = meeting(2, Slack(1));
  (void)outer_of(maker);
  Scalar one(std::move(maker));
  bool is_answered = true;
  for (std::int64_t clock = kInterval - 1; is_answered; clock += kInterval) {
    REQUIRE(clock < 10 * kInterval);
    REQUIRE(one.push(0, clock, 1) == PushVerdict::kAccept);
    const auto position = one.slice->position(WorkerId(0), one.view->slack);
    is_answered = !std::isnan(one.read(0, clock + 1));
    CHECK(position.waits == !is_answered);
    CHECK(position.clock == Clock(is_answered ? clock + 1 : clock));
  }
}

TEST_CASE("the memory that tables need includes what a buffer holds", "[memory][averaging]") {
  JobMaker maker = meeting(2, Slack(1));
  outer_of(maker).set_type("SGD");
  outer_of(maker).set_momentum(0);
  const auto needs = [](JobMaker& of) {
    std::vector<TableSpec> tables{test::make_table(0, {1000}), test::make_table(1, {1000})};
    tables[1].kind = TableKind::kFrozen;
    return even_needs(tables, *of.view());
  };
  const auto before = needs(maker);
  outer_of(maker).set_buffer(10);
  const auto after = needs(maker);
  CHECK(after[0].bytes == before[0].bytes + 10 * 1000 * sizeof(float));
  CHECK(after[1].bytes == before[1].bytes);
}
