#include "proto/session/control_session.hpp"

#include <algorithm>

#include "proto/session/coordinator_addresses.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

const TimePoint kStart{1h};

ControlIdentity worker() {
  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  identity.name = "w0";
  identity.session = 42;
  identity.device = "cpu";
  return identity;
}

pb::ControlMessage accepted(std::uint64_t request, std::uint64_t incarnation) {
  pb::ControlMessage message;
  message.set_request(request);
  message.mutable_hello_reply()->set_wire_version(kWireVersion);
  message.mutable_hello_reply()->set_accepted(true);
  message.mutable_hello_reply()->set_incarnation(incarnation);
  return message;
}

pb::ControlMessage worker_job(std::uint64_t revision, std::uint64_t incarnation) {
  pb::ControlMessage message;
  message.mutable_worker_job()->set_job(1);
  message.mutable_worker_job()->set_revision(revision);
  message.mutable_worker_job()->set_incarnation(incarnation);
  return message;
}

pb::ControlMessage not_known(std::uint64_t request) {
  pb::ControlMessage message;
  message.set_request(request);
  message.mutable_heartbeat_reply()->set_known(false);
  return message;
}

/// The request of the one message that must be sent.
std::uint64_t sent(const ControlOutput& output) {
  REQUIRE(output.messages.size() == 1);
  return output.messages.front().request();
}

/// A session in the life `incarnation`, accepted at kStart.
ControlSession accepted_session(std::uint64_t incarnation) {
  ControlSession session(worker(), {}, kStart);
  const std::uint64_t request = sent(session.tick(kStart));
  REQUIRE(session.handle(accepted(request, incarnation), kStart).events.size() == 1);
  return session;
}

}  // namespace

TEST_CASE("a hello names its process, and is sent again until it is answered", "[control]") {
  ControlSession session(worker(), {}, kStart);
  const ControlOutput first = session.tick(kStart);
  REQUIRE(first.messages.size() == 1);
  const pb::Hello& hello = first.messages.front().hello();
  CHECK(hello.wire_version() == kWireVersion);
  CHECK(hello.build() == build_name());
  CHECK(hello.name() == "w0");
  CHECK(hello.session() == 42);
  CHECK(session.tick(kStart + 400ms).messages.empty());
  CHECK(session.next_tick() == kStart + 500ms);
  CHECK(session.tick(kStart + 500ms).messages.size() == 1);
  // The answer to the first hello will do.
  const ControlOutput answered =
      session.handle(accepted(first.messages.front().request(), 7), kStart + 600ms);
  REQUIRE(answered.events.size() == 1);
  CHECK(std::get<control_event::Accepted>(answered.events[0]).incarnation == Incarnation(7));
  CHECK(session.accepted());
}

TEST_CASE("a refused session reports why and falls silent", "[control]") {
  ControlSession session(worker(), {}, kStart);
  pb::ControlMessage reply = accepted(sent(session.tick(kStart)), 7);
  SECTION("by the coordinator") {
    reply.mutable_hello_reply()->set_accepted(false);
    reply.mutable_hello_reply()->set_reason("worker \"w0\" is already here");
    const ControlOutput output = session.handle(reply, kStart);
    CHECK(std::get<control_event::Refused>(output.events.at(0)).reason ==
          "worker \"w0\" is already here");
  }
  SECTION("by itself, where the coordinator speaks another wire version") {
    reply.mutable_hello_reply()->set_wire_version(kWireVersion + 1);
    reply.mutable_hello_reply()->set_build("other build");
    const ControlOutput output = session.handle(reply, kStart);
    CHECK_THAT(std::get<control_event::Refused>(output.events.at(0)).reason,
               Contains("wire version 16") && Contains("wire version 17 (other build)"));
  }
  CHECK(session.tick(kStart + 100s).messages.empty());
  CHECK(session.next_tick() == TimePoint::never());
}

TEST_CASE("heartbeats carry the latest report, on time or at once", "[control]") {
  ControlSession session = accepted_session(7);
  pb::Heartbeat report;
  report.mutable_progress()->set_clock(3);
  session.report(report);
  const ControlOutput first = session.tick(kStart);
  REQUIRE(first.messages.size() == 1);
  CHECK(first.messages[0].heartbeat().progress().clock() == 3);
  report.mutable_progress()->set_clock(4);
  session.report(report);
  CHECK(session.tick(kStart + 100ms).messages.empty());
  session.report(report, true);
  const ControlOutput urgent = session.tick(kStart + 200ms);
  REQUIRE(urgent.messages.size() == 1);
  CHECK(urgent.messages[0].heartbeat().progress().clock() == 4);
  CHECK(session.tick(kStart + 600ms).messages.empty());
  CHECK(session.tick(kStart + 700ms).messages.size() == 1);
}

TEST_CASE("an unknown heartbeat is followed by a hello, once", "[control]") {
  ControlSession session = accepted_session(7);
  const std::uint64_t heartbeat = sent(session.tick(kStart));
  CHECK(session.handle(not_known(heartbeat), kStart + 1ms).events.empty());
  const ControlOutput again = session.tick(kStart + 1ms);
  REQUIRE(again.messages.size() == 1);
  REQUIRE(again.messages[0].has_hello());
  CHECK(again.messages[0].hello().session() == 42);
  CHECK(session.handle(accepted(again.messages[0].request(), 7), kStart + 2ms).events.size() == 1);
  // A late copy speaks of the time before.
  CHECK(session.handle(not_known(heartbeat), kStart + 3ms).events.empty());
  CHECK(session.accepted());
}

TEST_CASE("another life in the answer to a hello means that the last one was declared lost",
          "[control]") {
  ControlSession session = accepted_session(7);
  CHECK(session.handle(worker_job(5, 7), kStart).events.size() == 1);
  session.report([] {
    pb::Heartbeat report;
    report.mutable_progress()->set_job(1);
    return report;
  }());
  CHECK(session.handle(not_known(sent(session.tick(kStart))), kStart).events.empty());
  pb::ControlMessage reply = accepted(sent(session.tick(kStart)), 9);
  reply.mutable_hello_reply()->set_lost_reason("worker \"w0\" was silent for 15.2 s");
  const ControlOutput output = session.handle(reply, kStart);
  REQUIRE(output.events.size() == 2);
  CHECK(std::get<control_event::DeclaredLost>(output.events[0]).reason ==
        "worker \"w0\" was silent for 15.2 s");
  CHECK(std::get<control_event::Accepted>(output.events[1]).incarnation == Incarnation(9));
  // Nothing of the old life is reported, and its jobs count from their first revision again.
  CHECK_FALSE(session.tick(kStart).messages.at(0).heartbeat().has_progress());
  CHECK(session.handle(worker_job(6, 7), kStart).events.empty());
  CHECK(session.handle(worker_job(1, 9), kStart).events.size() == 1);
}

TEST_CASE("each revision of a job arrives once, and an older one not at all", "[control]") {
  ControlSession session = accepted_session(7);
  CHECK(session.handle(worker_job(2, 7), kStart).events.size() == 1);
  CHECK(session.handle(worker_job(2, 7), kStart).events.empty());
  CHECK(session.handle(worker_job(1, 7), kStart).events.empty());
  CHECK(session.handle(worker_job(3, 7), kStart).events.size() == 1);
  pb::ControlMessage server_job;
  server_job.mutable_server_job()->set_job(1);
  server_job.mutable_server_job()->set_revision(1);
  CHECK(session.handle(server_job, kStart).events.size() == 1);
  CHECK(session.handle(server_job, kStart).events.empty());
}

TEST_CASE("a silent coordinator is reconnected to and greeted again", "[control]") {
  ControlSession session = accepted_session(7);
  static_cast<void>(session.tick(kStart));
  CHECK_FALSE(session.tick(kStart + 4900ms).reconnect);
  const ControlOutput output = session.tick(kStart + 5s);
  CHECK(output.reconnect);
  REQUIRE(output.messages.size() == 1);
  CHECK(output.messages[0].has_hello());
  CHECK_FALSE(session.accepted());
  CHECK_FALSE(session.tick(kStart + 6s).reconnect);
}

TEST_CASE("a connection is not replaced between two rare heartbeats", "[control]") {
  ControlTimings timings;
  timings.heartbeat_interval = 10s;
  ControlSession session(worker(), timings, kStart);
  static_cast<void>(session.handle(accepted(sent(session.tick(kStart)), 7), kStart));
  for (int i = 0; i < 3; ++i) {
    const TimePoint now = kStart + i * 10s;
    const ControlOutput output = session.tick(now);
    CHECK_FALSE(output.reconnect);
    REQUIRE(output.messages.size() == 1);
    CHECK(output.messages[0].has_heartbeat());
    pb::ControlMessage known;
    known.set_request(sent(output));
    known.mutable_heartbeat_reply()->set_known(true);
    static_cast<void>(session.handle(known, now));
    CHECK(session.next_tick() == now + 10s);
    CHECK_FALSE(session.tick(now + 6s).reconnect);
  }
  // The last answer came after 20 s. A hello is answered at once, so it is repeated soon.
  CHECK_FALSE(session.tick(kStart + 39s).reconnect);
  CHECK(session.tick(kStart + 40s).reconnect);
  CHECK_FALSE(session.tick(kStart + 44s).reconnect);
  CHECK(session.tick(kStart + 45s).reconnect);
}

TEST_CASE("a half-open connection is replaced before its process is declared lost", "[control]") {
  constexpr Duration kHeartbeatLimit = 15s;  // the coordinator's, where a config names none
  for (const Duration interval : {500ms, 3000ms, 5000ms, 7000ms, 7400ms}) {
    CAPTURE(seconds(interval));
    ControlTimings timings;
    timings.heartbeat_interval = interval;
    ControlSession session(worker(), timings, kStart);
    static_cast<void>(session.handle(accepted(sent(session.tick(kStart)), 7), kStart));
    // From now on nothing arrives, and neither side learns it.
    TimePoint now = kStart;
    while (!session.tick(now).reconnect && now < kStart + kHeartbeatLimit) now = now + 100ms;
    CHECK(now >= kStart + std::max<Duration>(5s, 2 * interval));
    CHECK(now < kStart + kHeartbeatLimit);
  }
}

TEST_CASE("a coordinator that stands by redirects, whatever it was sent", "[control]") {
  const auto redirection = [](std::uint64_t request, const std::string& leader) {
    pb::ControlMessage message;
    message.set_request(request);
    message.mutable_hello_reply()->set_wire_version(kWireVersion);
    message.mutable_hello_reply()->set_stands_by(true);
    message.mutable_hello_reply()->set_leader(leader);
    return message;
  };
  ControlSession session(worker(), {}, kStart);
  const std::uint64_t first = sent(session.tick(kStart));
  ControlOutput out = session.handle(redirection(first, "b:2"), kStart);
  CHECK(out.reconnect);
  CHECK(out.leader == "b:2");
  CHECK(out.events.empty());
  // A second copy says nothing new, or it would be redirected for ever.
  CHECK_FALSE(session.handle(redirection(first, "b:2"), kStart).reconnect);
  const std::uint64_t second = sent(session.tick(kStart + 200ms));
  REQUIRE(session.handle(accepted(second, 3), kStart + 200ms).events.size() == 1);
  // It was deposed: the answer to a heartbeat redirects too, and the session continues.
  const std::uint64_t heartbeat = sent(session.tick(kStart + 1s));
  out = session.handle(redirection(heartbeat, ""), kStart + 1s);
  CHECK(out.reconnect);
  CHECK_FALSE(session.accepted());
  const std::uint64_t third = sent(session.tick(kStart + 2s));
  out = session.handle(accepted(third, 3), kStart + 2s);
  REQUIRE(out.events.size() == 1);
  CHECK(std::holds_alternative<control_event::Accepted>(out.events[0]));
}

TEST_CASE("of several coordinators the next one is tried, or the leader that was named",
          "[control]") {
  CHECK(listed_addresses("a:1") == std::vector<std::string>{"a:1"});
  CoordinatorAddresses addresses("a:1, b:2,c:3");
  CHECK(addresses.count() == 3);
  CHECK(addresses.current() == "a:1");
  CHECK(addresses.next("") == "b:2");
  CHECK(addresses.next("a:1") == "a:1");
  // A leader that does not answer is left, even if it is named again.
  CHECK(addresses.next("a:1") == "c:3");
  CHECK(addresses.next("") == "a:1");
}

TEST_CASE("a coordinator that never answers is reported after the wait limit", "[control]") {
  ControlSession session(worker(), {}, kStart);
  int reports = 0;
  for (TimePoint now = kStart; now <= kStart + 125s; now = now + 100ms) {
    for (const ControlEvent& event : session.tick(now).events) {
      const auto* unreachable = std::get_if<control_event::Unreachable>(&event);
      REQUIRE(unreachable != nullptr);
      CHECK_THAT(unreachable->reason, Contains("60 s"));
      CHECK(now >= kStart + 60s);
      ++reports;
    }
  }
  CHECK(reports == 2);
}

TEST_CASE("a process that has joined never gives up on its coordinator", "[control]") {
  ControlSession session = accepted_session(7);
  int hellos = 0;
  for (TimePoint now = kStart; now <= kStart + 900s; now = now + 100ms) {
    const ControlOutput output = session.tick(now);
    CHECK(output.events.empty());
    for (const pb::ControlMessage& message : output.messages) hellos += message.has_hello() ? 1 : 0;
    REQUIRE(session.next_tick() > now);
  }
  CHECK(hellos > 100);
  const ControlOutput again = session.tick(kStart + 901s);
  const auto events = session.handle(accepted(sent(again), 7), kStart + 901s).events;
  REQUIRE(events.size() == 1);
  CHECK(std::holds_alternative<control_event::Accepted>(events[0]));
}

TEST_CASE("a client sends a hello and no heartbeats", "[control]") {
  ControlIdentity identity;
  identity.role = pb::ROLE_CLIENT;
  ControlSession session(identity, {}, kStart);
  static_cast<void>(session.handle(accepted(sent(session.tick(kStart)), 0), kStart));
  CHECK(session.accepted());
  CHECK(session.next_tick() == TimePoint::never());
  const ControlOutput later = session.tick(kStart + 100s);
  CHECK(later.messages.empty());
  CHECK(later.events.empty());
  CHECK_FALSE(later.reconnect);
}

}  // namespace taut
