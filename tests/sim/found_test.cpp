// What the simulator has found, each with the smallest case that shows it.
#include "server/coordinator/coordinator.hpp"
#include "server/job_view.hpp"
#include "proto/wire_version.hpp"
#include "tests/sim/cluster.hpp"
#include "tests/sim/toy_job.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using taut::sim::Plan;
using Kind = taut::sim::Plan::Event::Kind;

TEST_CASE("after a change from BSP a read waits for every aggregate, so that it holds its own "
          "updates",
          "[sim]") {
  server::JobView view;
  view.slack = Slack(4);
  view.membership = Membership(EpochId(), {}, {{Clock(0), ApplyMode::kAggregate},
                                               {Clock(6), ApplyMode::kOnArrival}});
  CHECK(view.slack_at(Clock(6)) == Slack(0));
  // One that joined at clock 6 has pushed it; the aggregate of clock 5 comes before.
  CHECK(view.slack_at(Clock(7)) == Slack(1));
  CHECK(view.slack_at(Clock(20)) == Slack(4));
}

TEST_CASE("BSP ends with the last updates of the others when a worker is lost at its last clock",
          "[sim]") {
  Plan plan;
  plan.job.slack = Slack(0);
  plan.job.clocks = 1;
  plan.compute_min = plan.compute_max = Duration(20'000);
  plan.events = {{Duration(60'000), Kind::kKill, 1}};
  const sim::Outcome outcome = sim::run(plan);
  CHECK(outcome.done);
  CHECK(outcome.members == 3);
  if (outcome.broken) FAIL_CHECK(outcome.broken->rule << ": " << outcome.broken->what);
}

TEST_CASE("a late report of an earlier life does not stop the life after it", "[sim]") {
  CoordinatorOptions options;
  options.session = 1;
  Coordinator coordinator(options, {}, TimePoint());
  const PeerId server(1);
  const PeerId worker(2);
  const auto hello = [&](PeerId from, pb::Role role, TimePoint now) {
    pb::ControlMessage message;
    message.mutable_hello()->set_wire_version(kWireVersion);
    message.mutable_hello()->set_role(role);
    message.mutable_hello()->set_name("one");
    message.mutable_hello()->set_session(from.value());
    if (role == pb::ROLE_SERVER) message.mutable_hello()->add_shard_addresses("here:1");
    const auto out = coordinator.handle(from, message, now);
    return out.messages.front().message.hello_reply().incarnation();
  };
  hello(server, pb::ROLE_SERVER, TimePoint());
  const std::uint64_t first = hello(worker, pb::ROLE_WORKER, TimePoint());
  pb::ControlMessage submit;
  sim::ToyJob toy;
  toy.workers = 1;
  *submit.mutable_submit()->mutable_definition() = sim::toy_definition(toy);
  (void)coordinator.handle(PeerId(3), submit, TimePoint());

  const TimePoint later(Duration(1'000'000));
  pb::ControlMessage goodbye;
  goodbye.mutable_goodbye()->set_reason("lost");
  (void)coordinator.handle(worker, goodbye, later);
  const std::uint64_t second = hello(worker, pb::ROLE_WORKER, later);
  REQUIRE(second != first);

  pb::ControlMessage late;
  late.mutable_heartbeat()->mutable_progress()->set_job(1);
  late.mutable_heartbeat()->mutable_progress()->set_revision(6);
  late.mutable_heartbeat()->mutable_progress()->set_incarnation(first);
  for (const CoordinatorMessage& out : coordinator.handle(worker, late, later).messages) {
    if (!out.message.has_worker_job()) continue;
    CHECK(out.message.worker_job().incarnation() == first);
  }
}
