#include "proto/config/job_state.hpp"

#include <limits>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

pb::SolverParameter solver(const std::string& text) {
  pb::SolverParameter result;
  REQUIRE(parse_text(text, "solver", result).has_value());
  return result;
}

std::string refusal_of(const std::string& text) {
  const auto rule = to_update_rule(solver(text));
  REQUIRE_FALSE(rule.has_value());
  return rule.error().message;
}

TableSpec sample_table() {
  TableSpec table;
  table.id = TableId(2);
  table.name = "conv1.weight";
  table.shape = {20, 1, 5, 5};
  table.kind = TableKind::kAveraged;
  table.filler = {math::Filler::Kind::kGaussian, 0.25F, 0.0078125F};
  table.lr_mult = 2;
  table.decay_mult = 0;
  return table;
}

}  // namespace

TEST_CASE("a solver's type and momentum name the update rule", "[job_state]") {
  const auto kind = [](const std::string& text) {
    return to_update_rule(solver(text)).value().kind;
  };
  CHECK(kind("base_lr: 1") == math::RuleKind::kSgd);
  CHECK(kind("base_lr: 1 momentum: 0.9") == math::RuleKind::kMomentum);
  CHECK(kind("base_lr: 1 momentum: 0.9 type: 'Nesterov'") == math::RuleKind::kNesterov);
  CHECK(kind("base_lr: 1 momentum: 0.9 type: 'Adam'") == math::RuleKind::kAdam);
}

TEST_CASE("a job that looks ahead needs a solver with a velocity", "[job_state]") {
  pb::Job job;
  job.mutable_consistency()->set_look_ahead(true);
  const auto rule = [&job](const std::string& text) {
    *job.mutable_solver_param() = solver(text);
    return to_update_rule(job);
  };
  const math::UpdateRule heavy_ball = rule("base_lr: 1 momentum: 0.9").value();
  CHECK(heavy_ball.kind == math::RuleKind::kNesterov);
  CHECK(heavy_ball.looks_ahead);
  CHECK(heavy_ball.steps_ahead == 0);
  CHECK(rule("base_lr: 1 momentum: 0.9 type: 'Nesterov'").value().steps_ahead == 1);
  CHECK(rule("base_lr: 1").error().message ==
        "consistency: look_ahead follows the velocity of solver type SGD or Nesterov with momentum "
        "above 0; the solver has type SGD, momentum 0");
  CHECK(!rule("base_lr: 1 momentum: 0.9 type: 'Adam'").has_value());
}

TEST_CASE("every number of a solver reaches its rule", "[job_state]") {
  const auto rule =
      to_update_rule(solver("base_lr: 0.5 lr_policy: 'multistep' gamma: 0.25 power: 3 stepsize: 7 "
                            "stepvalue: 10 stepvalue: 20 max_iter: 30 warmup_iter: 4 "
                            "warmup_start_lr: 0.125 momentum: 0.75 momentum2: 0.5 delta: 0.0625 "
                            "weight_decay: 0.03125 regularization_type: 'L1' clip_gradients: 5"))
          .value();
  CHECK(rule.rate.policy == math::LearningRate::Policy::kMultistep);
  CHECK(rule.rate.base == 0.5);
  CHECK(rule.rate.gamma == 0.25);
  CHECK(rule.rate.power == 3);
  CHECK(rule.rate.step == 7);
  CHECK(rule.rate.steps == std::vector<std::int64_t>{10, 20});
  CHECK(rule.rate.horizon == 30);
  CHECK(rule.rate.warmup == 4);
  CHECK(rule.rate.warmup_base == 0.125);
  CHECK(rule.momentum == 0.75F);
  CHECK(rule.momentum2 == 0.5F);
  CHECK(rule.delta == 0.0625F);
  CHECK(rule.weight_decay == 0.03125F);
  CHECK(rule.regularization == math::Regularization::kL1);
  CHECK(rule.clip_norm == 5);
}

TEST_CASE("a wrong name in a solver is refused with the value and the choice", "[job_state]") {
  CHECK_THAT(refusal_of("type: 'Adagrad'"), Contains("Adagrad") && Contains("Nesterov"));
  CHECK_THAT(refusal_of("lr_policy: 'stairs'"), Contains("stairs") && Contains("multistep"));
  CHECK_THAT(refusal_of("lr_policy: 'step'"), Contains("stepsize") && Contains("0"));
  CHECK_THAT(refusal_of("regularization_type: 'L3'"), Contains("L3") && Contains("L1"));
}

TEST_CASE("a table's description survives the way through its message", "[job_state]") {
  const TableSpec table = sample_table();
  CHECK(from_wire(to_wire(table)).value() == table);
  for (const auto kind : {math::Filler::Kind::kConstant, math::Filler::Kind::kUniform}) {
    TableSpec other = table;
    other.filler = {kind, -0.5F, kind == math::Filler::Kind::kConstant ? 0.0F : 0.5F};
    other.kind = TableKind::kFrozen;
    CHECK(from_wire(to_wire(other)).value() == other);
  }
  TableSpec tents = table;
  tents.filler = math::bilinear(5);
  CHECK(from_wire(to_wire(tents)).value() == tents);
  TableSpec sparse = table;
  sparse.shape = {20, 500};
  sparse.filler.sparse = 3;
  sparse.filler.outputs = 20;
  CHECK(from_wire(to_wire(sparse)).value() == sparse);
  TableSpec scalar = table;
  scalar.shape.clear();
  CHECK(from_wire(to_wire(scalar)).value().count() == 1);
}

TEST_CASE("a table whose shape, kind or filler cannot work is refused by its name", "[job_state]") {
  const auto refusal = [](const auto& change) {
    pb::TableSpec wire = to_wire(sample_table());
    change(wire);
    const auto table = from_wire(wire);
    REQUIRE_FALSE(table.has_value());
    return table.error().message;
  };
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refusal([](auto& wire) { wire.set_shape(1, 0); }), Contains("conv1.weight"));
  CHECK_THAT(refusal([](auto& wire) { wire.set_shape(1, -5); }), Contains("-5"));
  CHECK_THAT(refusal([](auto& wire) { wire.set_shape(1, kMax); }), Contains(std::to_string(kMax)));
  // The product wraps around to a small number.
  CHECK_THAT(refusal([](auto& wire) {
               wire.clear_shape();
               for (int i = 0; i < 4; ++i) wire.add_shape(std::int64_t{1} << 32U);
             }),
             Contains("more than the limit of"));
  CHECK_THAT(refusal([](auto& wire) { wire.set_kind(static_cast<pb::TableSpec::Kind>(3)); }),
             Contains("kind 3"));
  CHECK_THAT(refusal([](auto& wire) { wire.mutable_filler()->set_type("xavier"); }),
             Contains("xavier"));
  for (const int sparse : {-2, 21}) {
    CHECK_THAT(refusal([&](auto& wire) { wire.mutable_filler()->set_sparse(sparse); }),
               Contains("conv1.weight") && Contains(std::to_string(sparse)));
  }
  CHECK_THAT(refusal([](auto& wire) {
               wire.clear_shape();
               wire.mutable_filler()->set_sparse(0);
             }),
             Contains("keeps 0 weights"));
  CHECK_THAT(refusal([](auto& wire) {
               wire.set_shape(3, 4);
               wire.mutable_filler()->set_type("bilinear");
             }),
             Contains("conv1.weight") && Contains("square kernels"));
}

TEST_CASE("a job's members and modes become its membership", "[job_state]") {
  pb::ServerJob job;
  job.set_job(7);
  job.set_epoch(4);
  auto& second = *job.add_members();
  second.set_worker(1);
  second.set_incarnation(11);
  second.set_join_clock(5);
  second.set_leave_clock(9);
  second.set_fenced(true);
  auto& first = *job.add_members();
  first.set_incarnation(10);
  first.set_leave_clock(Clock::never().value());
  CHECK_FALSE(to_membership(job).has_value());  // no mode
  auto& later = *job.add_modes();
  later.set_first_clock(3);
  later.set_mode(pb::ModeChange::ON_ARRIVAL);
  CHECK_THAT(to_membership(job).error().message, Contains("job 7"));
  job.add_modes()->set_mode(pb::ModeChange::AGGREGATE);
  const Membership membership = to_membership(job).value();
  CHECK(membership.epoch() == EpochId(4));
  CHECK(membership.mode_at(Clock(2)) == ApplyMode::kAggregate);
  CHECK(membership.mode_at(Clock(3)) == ApplyMode::kOnArrival);
  CHECK(membership.count_at(Clock(4)) == 1);
  CHECK(membership.count_at(Clock(5)) == 2);
  CHECK(membership.count_at(Clock(9)) == 1);
  REQUIRE(membership.find(WorkerId(1)) != nullptr);
  CHECK(membership.find(WorkerId(1))->fenced);
  CHECK(membership.find(WorkerId(1))->incarnation == Incarnation(11));
  CHECK(membership.find(WorkerId(2)) == nullptr);
}

TEST_CASE("a job's hash is that of its definition, and distinguishes definitions", "[job_state]") {
  pb::Job one;
  one.set_name("one");
  one.set_seed(1);
  pb::Job same = one;
  CHECK(job_hash(one) == job_hash(same));
  CHECK(job_hash(one).size() == 64);
  same.set_seed(2);
  CHECK(job_hash(one) != job_hash(same));
}

TEST_CASE("a table's origin travels, and one that is no place in a file is refused",
          "[job_state]") {
  TableSpec table = sample_table();
  table.origin =
      TensorPlace{"/models/vgg.caffemodel", std::string(64, 'f'), 1234, ElementType::kF64};
  CHECK(from_wire(to_wire(table)).value() == table);
  const auto refused = [&](auto&& change) {
    pb::TableSpec wire = to_wire(table);
    change(*wire.mutable_origin());
    const auto read = from_wire(wire);
    REQUIRE_FALSE(read.has_value());
    CHECK_THAT(read.error().message, Contains("\"conv1.weight\": its origin is not a place"));
  };
  refused([](pb::TensorPlace& place) { place.clear_file(); });
  refused([](pb::TensorPlace& place) { place.set_file(std::string(5000, 'x')); });
  refused([](pb::TensorPlace& place) { place.set_sha256("f"); });
  refused([](pb::TensorPlace& place) { place.set_sha256(std::string(64, '\n')); });
  refused([](pb::TensorPlace& place) { place.set_offset(1ULL << 63U); });
  refused([](pb::TensorPlace& place) { place.set_element_type("I32"); });
  refused([](pb::TensorPlace& place) { place.set_element_type("F31"); });
}

}  // namespace taut
