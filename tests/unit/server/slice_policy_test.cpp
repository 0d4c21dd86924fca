// Policies next to the fixed bound, at one slice.
#include <cmath>
#include <vector>

#include "proto/config/settle_policies.hpp"
#include "server/slice_state.hpp"
#include "tests/unit/server/job_maker.hpp"

using namespace taut;
using namespace taut::server;
using test::JobMaker;

namespace {

constexpr float kRate = 0.5F;  // of JobMaker's jobs

JobMaker bsp_with_backup(int members, std::uint32_t backup_workers) {
  JobMaker maker(members);
  maker.state.mutable_definition()->set_workers(static_cast<std::uint32_t>(members));
  pb::Consistency& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_mode(pb::Consistency::BSP);
  consistency.set_backup_workers(backup_workers);
  return maker;
}

JobMaker async(int members) {
  JobMaker maker(members, Slack::unbounded());
  maker.state.mutable_definition()->mutable_consistency()->set_mode(pb::Consistency::ASYNC);
  return maker;
}

/// One slice of one element that starts at 0, so that its value is minus the rate times the sum of
/// what was applied.
class Scalar {
 public:
  explicit Scalar(JobMaker maker, TableKind kind = TableKind::kTrained)
      : job(std::move(maker)), view(job.view()) {
    TableSpec table = test::make_table(0, {1}, kind);
    table.filler = {math::Filler::Kind::kConstant, 0, 0};
    slice = std::make_unique<SliceState>(table, Slice{TableId(0), SliceId(0), 0, 1, ShardId(0)},
                                         *view, pool_, view->policies.schedule());
  }
  PushVerdict push(std::uint32_t worker, std::int64_t clock, float gradient) {
    return slice->push(WorkerId(worker), {Clock(clock), test::frame_of({gradient}), 0}, *view,
                       released);
  }
  /// What a read is answered with; NaN where it is parked.
  float read(std::uint32_t worker, std::int64_t clock) {
    const auto answer = slice->read({PeerId(worker + 1), WorkerId(worker), Clock(clock)}, *view);
    return answer ? test::floats_of(answer->values)[0] : std::nanf("");
  }
  [[nodiscard]] float value() const {
    return test::floats_of(slice->snapshot(PeerId(99)).values)[0];
  }

  JobMaker job;
  std::shared_ptr<const JobView> view;
  std::vector<Answer> released;
  std::unique_ptr<SliceState> slice;

 private:
  BufferPool pool_;
};

}  // namespace

TEST_CASE("with a backup worker the mean is over the first two of three, and the third is dropped",
          "[slice][policy]") {
  Scalar one(bsp_with_backup(3, 1));
  one.push(2, 0, 4);
  CHECK(one.value() == 0);
  CHECK(std::isnan(one.read(2, 1)));
  CHECK(one.push(0, 0, 8) == PushVerdict::kAccept);
  CHECK(one.value() == -kRate * 6);
  CHECK(one.slice->version() == Clock(1));
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.worker == WorkerId(2));
  // It counts as done, is acknowledged, and changes nothing.
  CHECK(one.push(1, 0, 1000) == PushVerdict::kAccept);
  CHECK(one.push(1, 0, 1000) == PushVerdict::kDuplicate);
  CHECK(one.value() == -kRate * 6);
  CHECK(one.slice->done(WorkerId(1)) == Clock(1));
  CHECK(one.slice->dropped() == 1);
}

TEST_CASE("a worker that fell behind reads the newest values and continues at the others' clock",
          "[slice][policy]") {
  Scalar one(bsp_with_backup(3, 1));
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    one.push(0, clock, 2);
    one.push(1, clock, 2);
  }
  CHECK(one.push(2, 0, 2) == PushVerdict::kAccept);
  CHECK(one.read(2, 1) == -kRate * 10);
  CHECK(one.slice->version() == Clock(5));
  CHECK(one.push(2, 6, 2) == PushVerdict::kAhead);
  CHECK(one.push(2, 5, 6) == PushVerdict::kAccept);
  CHECK(one.push(0, 5, 2) == PushVerdict::kAccept);
  CHECK(one.value() == -kRate * 14);
}

TEST_CASE("the loss of a worker leaves as many backups as there are beyond one",
          "[slice][policy]") {
  Scalar one(bsp_with_backup(3, 2));
  one.job.leave(WorkerId(1), Clock(0));
  one.job.leave(WorkerId(2), Clock(0));
  one.view = one.job.view();
  one.slice->update(*one.view, one.released);
  CHECK(one.value() == 0);
  one.push(0, 0, 3);
  CHECK(one.value() == -kRate * 3);
}

TEST_CASE("an update counts one over the clocks that were applied since its worker's read",
          "[slice][policy]") {
  JobMaker maker = async(2);
  maker.state.mutable_definition()->mutable_consistency()->set_staleness_learning_rate(true);
  Scalar one(maker);
  CHECK(one.read(0, 0) == 0);
  CHECK(one.read(1, 0) == 0);
  // Six updates of two members are three clocks: each is fresh when it comes.
  float expected = 0;
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    one.push(0, clock, 1);
    CHECK(one.read(0, clock + 1) == one.value());
    expected -= kRate * 1 / 2;
  }
  CHECK(one.value() == expected);
  one.push(1, 0, 1);
  CHECK(one.value() == Approx(expected - kRate / 2 / 3));
}

TEST_CASE("an update counts one over a power of one more than its staleness", "[slice][policy]") {
  JobMaker maker = async(2);
  maker.state.mutable_definition()->mutable_consistency()->set_staleness_exponent(0.5F);
  Scalar one(maker);
  CHECK(one.read(0, 0) == 0);
  CHECK(one.read(1, 0) == 0);
  // One update of two members is half a clock; nothing was applied before the first.
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    one.push(0, clock, 1);
    CHECK(one.read(0, clock + 1) == one.value());
  }
  CHECK(one.value() == Approx(-kRate * 6 / 2));
  one.push(1, 0, 1);
  CHECK(one.value() == Approx(-kRate / 2 * (6 + 1 / std::sqrt(1 + 3.0))));
}

TEST_CASE("an exponent for staleness must be a number above 0, and the only weight",
          "[slice][policy]") {
  const auto error_of = [](float exponent, bool rate) {
    pb::Job job;
    pb::Consistency& consistency = *job.mutable_consistency();
    consistency.set_mode(pb::Consistency::ASYNC);
    consistency.set_staleness_exponent(exponent);
    consistency.set_staleness_learning_rate(rate);
    const auto policies = to_policies(job);
    return policies ? std::string() : policies.error().message;
  };
  CHECK(error_of(0.5F, false).empty());
  for (const float exponent : {0.0F, -1.0F, 11.0F, std::nanf("")}) {
    CHECK_THAT(error_of(exponent, false),
               Catch::Matchers::Contains("must be greater than 0 and at most 10"));
  }
  CHECK_THAT(error_of(0.5F, true),
             Catch::Matchers::Contains("cannot be combined with staleness_learning_rate"));
}

TEST_CASE("where updates are added up, each one counts for the staleness", "[slice][policy]") {
  JobMaker maker = async(2);
  maker.state.mutable_definition()->set_reduction(pb::Job::SUM);
  maker.state.mutable_definition()->mutable_consistency()->set_staleness_learning_rate(true);
  Scalar one(maker);
  CHECK(one.read(0, 0) == 0);
  CHECK(one.read(1, 0) == 0);
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    one.push(0, clock, 1);
    CHECK(one.read(0, clock + 1) == one.value());
  }
  one.push(1, 0, 1);
  CHECK(one.value() == Approx(-kRate * (4 + 0.25)));
}

TEST_CASE("a late gradient is compensated for the slice's changes since its worker's read",
          "[slice][policy]") {
  JobMaker maker = async(2);
  maker.state.mutable_definition()
      ->mutable_consistency()
      ->mutable_delay_compensation()
      ->set_strength(0.1F);
  Scalar one(maker);
  CHECK(one.read(0, 0) == 0);
  CHECK(one.read(1, 0) == 0);
  one.push(0, 0, 4);
  const float moved = one.value();
  CHECK(moved == -kRate * 4 / 2);
  one.push(1, 0, 3);
  const float corrected = 3 + 0.1F * 3 * 3 * (moved - 0);
  CHECK(one.value() == Approx(moved - kRate * corrected / 2));
  // A worker that has read its own newest values computes from them.
  const float before = one.value();
  CHECK(one.read(1, 1) == before);
  one.push(1, 1, 5);
  CHECK(one.value() == Approx(before - kRate * 5 / 2));
}

TEST_CASE("a repeated answer to an older read changes nothing that a policy remembers",
          "[slice][policy]") {
  JobMaker maker = async(2);
  maker.state.mutable_definition()->mutable_consistency()->mutable_delay_compensation();
  Scalar one(maker);
  CHECK(one.read(0, 0) == 0);
  CHECK(one.read(1, 0) == 0);
  one.push(0, 0, 4);
  const float mine = one.read(0, 1);
  one.push(1, 0, 40);
  // The late copy is answered with newer values, and its worker has long gone on.
  CHECK(one.read(0, 0) == one.value());
  const float now = one.value();
  one.push(0, 1, 2);
  CHECK(one.value() == Approx(now - kRate * (2 + 0.04F * 4 * (now - mine)) / 2));
}

TEST_CASE("running statistics are averaged under every gradient policy", "[slice][policy]") {
  JobMaker maker = async(2);
  pb::Consistency& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_staleness_learning_rate(true);
  consistency.mutable_delay_compensation()->set_decay(0.9F);
  Scalar one(maker, TableKind::kAveraged);
  CHECK(one.read(0, 0) == 0);
  for (std::int64_t clock = 0; clock < 8; ++clock) one.push(1, clock, 0);
  one.push(0, 0, 6);
  CHECK(one.value() == 3);
}
