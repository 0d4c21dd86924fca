// What a member reports to a coordinator that the test plays.
#include <array>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"
#include "worker/member/job_member.hpp"

namespace taut {
namespace {

constexpr Duration kDeadline{20'000'000};

pb::WorkerJob job_at_silent_shard() {
  pb::WorkerJob job;
  job.set_job(7);
  job.set_revision(1);
  job.set_incarnation(5);
  job.set_slots(1);
  job.set_silence_limit_s(0.2);
  job.mutable_definition()->mutable_solver_param()->set_base_lr(0.5F);
  job.mutable_definition()->mutable_solver_param()->set_max_iter(10);
  pb::ShardInfo& shard = *job.add_shards();
  shard.set_shard(2);
  shard.set_address("127.0.0.1:1");
  shard.set_term(3);
  return job;
}

}  // namespace

TEST_CASE("a member reports a shard that does not answer, so that its server can be given up",
          "[library]") {
  ZmqContext context{Security::insecure()};
  const auto coordinator = context.make_endpoint();
  const auto address = coordinator->bind("127.0.0.1:0");
  REQUIRE(address.has_value());
  PeerId peer;
  const auto hear = [&](const auto& is_awaited) {
    const TimePoint deadline = steady_now() + kDeadline;
    while (steady_now() < deadline) {
      const auto incoming = coordinator->receive(Duration(100'000));
      if (!incoming) continue;
      peer = incoming->from;
      const auto message = decode_control(incoming->message);
      if (message && is_awaited(message.value())) return message.value();
    }
    FAIL("the member has not said it");
    return pb::ControlMessage();
  };
  MemberOptions options;
  options.coordinator = address.value();
  options.job = JobId(7);
  options.name = "m0";
  options.shared_memory = false;
  const auto member = JobMember::join(options);
  REQUIRE(member.has_value());

  pb::ControlMessage hello;
  hello.set_request(hear([](const auto& message) { return message.has_hello(); }).request());
  hello.mutable_hello_reply()->set_wire_version(kWireVersion);
  hello.mutable_hello_reply()->set_accepted(true);
  hello.mutable_hello_reply()->set_incarnation(5);
  REQUIRE(coordinator->send(peer, encode(hello)).has_value());
  pb::ControlMessage order;
  *order.mutable_worker_job() = job_at_silent_shard();
  REQUIRE(coordinator->send(peer, encode(order)).has_value());
  const auto place = member.value()->await_place(kDeadline);
  REQUIRE(place.has_value());
  REQUIRE(place.value().has_value());

  std::array<float, 4> values{};
  REQUIRE(member.value()->add_table("w", {4}, TableKind::kTrained, values).has_value());
  const auto opened = member.value()->open(kDeadline);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::kTimeout);
  const pb::ControlMessage report = hear([](const pb::ControlMessage& message) {
    return message.heartbeat().progress().has_silent();
  });
  CHECK(report.heartbeat().progress().silent().shard() == 2);
  CHECK(report.heartbeat().progress().silent().term() == 3);
}

}  // namespace taut
