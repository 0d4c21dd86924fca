// What the simulator has found, each with the smallest case that shows it.
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "lab/simulated_run.hpp"
#include "lab/toy_job.hpp"
#include "proto/wire_version.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/job_view.hpp"
#include "server/slice_state.hpp"
#include "tests/support/catch.hpp"
#include "worker/client/client_protocol.hpp"

using namespace taut;
using taut::sim::Plan;
using Kind = taut::sim::Plan::Event::Kind;

TEST_CASE(
    "after a change from BSP a read waits for every aggregate, so that it holds its own "
    "updates",
    "[sim]") {
  server::JobView view;
  view.slack = Slack(4);
  view.membership = Membership(
      EpochId(), {}, {{Clock(0), ApplyMode::kAggregate}, {Clock(6), ApplyMode::kOnArrival}});
  CHECK(view.slack_at(Clock(6)) == Slack(0));
  // A member that joined at clock 6 has pushed it; the aggregate of clock 5 comes first.
  CHECK(view.slack_at(Clock(7)) == Slack(1));
  CHECK(view.slack_at(Clock(20)) == Slack(4));
}

TEST_CASE(
    "a read that waits while the mode changes to BSP waits for the aggregate of its own update",
    "[sim]") {
  server::JobView view;
  view.slack = Slack(4);
  const Member member{WorkerId(0), Incarnation(1), Clock(0)};
  const Member other{WorkerId(1), Incarnation(2), Clock(0)};
  view.membership = Membership(EpochId(), {member, other}, {{Clock(0), ApplyMode::kOnArrival}});
  BufferPool pool;
  TableSpec table = sim::toy_tables({.tables = 1, .slices = 1}).front();
  const Slice place{TableId(0), SliceId(0), 0, table.count(), ShardId(0)};
  server::SliceState slice(table, place, view, pool, PushSchedule{});
  // The read overtakes its push, and the mode changes in between.
  REQUIRE(!slice.read({PeerId(1), WorkerId(0), Clock(1)}, view));
  view.slack = Slack(0);
  view.membership = Membership(EpochId(), {member, other}, {{Clock(0), ApplyMode::kAggregate}});
  std::vector<server::Answer> released;
  slice.update(view, released);
  const Frame update(pool.acquire(table.count() * sizeof(float)));
  slice.push(WorkerId(0), {Clock(0), update, 0}, view, released);
  CHECK(released.empty());
  slice.push(WorkerId(1), {Clock(0), update, 0}, view, released);
  CHECK(released.size() == 1);
}

TEST_CASE("BSP ends with the other workers' last updates when a worker is lost at its last clock",
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

TEST_CASE("a job whose last worker is lost when all is trained is ended by one that joins",
          "[sim]") {
  int ended_by_another = 0;
  for (std::int64_t moment = 0; moment < 40; ++moment) {
    Plan plan;
    plan.seed = static_cast<std::uint64_t>(moment) + 1;
    plan.job.workers = 1;
    plan.job.clocks = 3;
    plan.compute_min = plan.compute_max = Duration(20'000);
    const Duration at(90'000 + moment * 3000);
    plan.events = {{at, Kind::kKill, 0}, {at + Duration(30'000), Kind::kStart, 0}};
    const sim::Outcome outcome = sim::run(plan);
    INFO("killed at " << at.count() << " us: " << outcome.message);
    CHECK(outcome.done);
    if (outcome.broken) FAIL_CHECK(outcome.broken->rule << ": " << outcome.broken->what);
    ended_by_another += outcome.members == 2 ? 1 : 0;
  }
  CHECK(ended_by_another > 0);
}

TEST_CASE("a read is sent separately when a copy of its push is accepted after another was refused",
          "[sim]") {
  const ShardId shard(0);
  ClientProtocol client({JobId(1), WorkerId(0), Incarnation(1), "hash"}, {shard},
                        Duration(1'000'000), SendPolicy{}, sim::kSliceElements);
  TimePoint now;
  sim::ToyJob toy;
  toy.tables = toy.slices = 1;
  client.open(sim::toy_tables(toy));
  const auto say = [&](auto body) {
    client.handle(shard, DataMessage{JobId(1), {}, {}, std::move(body)}, now);
  };
  (void)client.take_outgoing(now);
  pb::DataHelloReply greeted;
  greeted.set_accepted(true);
  say(greeted);
  (void)client.take_outgoing(now);
  pb::OpenTablesReply opened;
  opened.set_accepted(true);
  say(opened);

  BufferPool pool;
  std::vector<float> values(sim::kSliceElements);
  client.read(TableId(0), Clock(1), values);
  client.push(TableId(0), {Clock(0), Frame(pool.acquire(values.size() * sizeof(float))), 0});
  REQUIRE(client.take_outgoing(now).size() == 1);
  DataItem answer;
  answer.kind = pb::DataItem::REFUSED;
  answer.refusal = pb::DataItem::HELD;
  say(DataItems{{answer}});
  answer.kind = pb::DataItem::ACK;
  answer.done = Clock(1);
  say(DataItems{{answer}});
  const auto out = client.take_outgoing(now);
  REQUIRE(out.size() == 1);
  CHECK(std::get<DataItems>(out[0].message.body).items.front().kind == pb::DataItem::READ);
}

TEST_CASE("a process that a late hello registered again must greet again", "[sim]") {
  Coordinator coordinator({}, {}, TimePoint());
  pb::ControlMessage hello;
  hello.mutable_hello()->set_wire_version(kWireVersion);
  hello.mutable_hello()->set_role(pb::ROLE_WORKER);
  hello.mutable_hello()->set_name("one");
  hello.mutable_hello()->set_session(1);
  const PeerId peer(1);
  const auto greet = [&] {
    const auto out = coordinator.handle(peer, hello, TimePoint());
    return out.messages.front().message.hello_reply().incarnation();
  };
  const std::uint64_t first = greet();
  pb::ControlMessage goodbye;
  goodbye.mutable_goodbye()->set_reason("lost");
  (void)coordinator.handle(peer, goodbye, TimePoint());
  const std::uint64_t second = greet();  // the late copy; the process never sees the answer
  REQUIRE(second != first);

  const auto is_known = [&](std::uint64_t life) {
    pb::ControlMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_incarnation(life);
    const auto out = coordinator.handle(peer, heartbeat, TimePoint());
    return out.messages.front().message.heartbeat_reply().known();
  };
  CHECK(!is_known(first));
  CHECK(is_known(second));
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
