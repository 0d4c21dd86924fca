#include <map>
#include <string>
#include <vector>

#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

const TimePoint kStart{1h};

pb::ControlMessage hello(pb::Role role, const std::string& name, std::uint64_t session) {
  pb::ControlMessage message;
  pb::Hello& body = *message.mutable_hello();
  body.set_wire_version(kWireVersion);
  body.set_build("test build");
  body.set_role(role);
  body.set_name(name);
  body.set_session(session);
  if (role == pb::ROLE_SERVER) body.add_shard_addresses("127.0.0.1:7601");
  return message;
}

pb::ControlMessage heartbeat() {
  pb::ControlMessage message;
  message.mutable_heartbeat();
  return message;
}

/// The one reply to a message, or one without a body where nothing was answered.
pb::ControlMessage reply_to(Coordinator& coordinator, PeerId from,
                            const pb::ControlMessage& message, TimePoint now) {
  const CoordinatorOutput output = coordinator.handle(from, message, now);
  return output.messages.empty() ? pb::ControlMessage() : output.messages.front().message;
}

}  // namespace

TEST_CASE("a hello of another wire version is refused with both sides' values", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  pb::ControlMessage message = hello(pb::ROLE_WORKER, "w0", 1);
  message.mutable_hello()->set_wire_version(kWireVersion + 6);
  const pb::HelloReply reply = reply_to(coordinator, PeerId(1), message, kStart).hello_reply();
  CHECK_FALSE(reply.accepted());
  CHECK(reply.reason().find("wire version 16 (" + build_name()) != std::string::npos);
  CHECK(reply.reason().find("wire version " + std::to_string(kWireVersion + 6) + " (test build)") !=
        std::string::npos);
  CHECK(reply.wire_version() == kWireVersion);
}

TEST_CASE("hellos that are refused are noted once a second, however many there are",
          "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  pb::ControlMessage message = hello(pb::ROLE_CLIENT, "view", 1);
  message.mutable_hello()->set_wire_version(kWireVersion + 6);
  std::vector<std::string> notes;
  const auto greet = [&](TimePoint now) {
    const CoordinatorOutput output = coordinator.handle(PeerId(1), message, now);
    // Each is answered nevertheless.
    CHECK(output.messages.size() == 1);
    for (const Note& note : output.notes) notes.push_back(note.text);
  };
  for (int i = 0; i < 100; ++i) greet(kStart);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("hello refused: wire version"));
  greet(kStart + 1s);
  REQUIRE(notes.size() == 2);
  CHECK(notes[1].ends_with(" (and 99 more hellos)"));
  greet(kStart + 2s);
  REQUIRE(notes.size() == 3);
  CHECK(notes[2] == notes[0]);
}

TEST_CASE("a daemon with another data_security is refused with both, one without takes what is",
          "[coordinator]") {
  for (const auto ours : {pb::DATA_SECURITY_CURVE, pb::DATA_SECURITY_TOKEN}) {
    CoordinatorOptions options;
    options.data_security = ours;
    Coordinator coordinator(options, {}, kStart);
    std::uint64_t peer = 1;
    for (const auto theirs : {pb::DATA_SECURITY_ANY, pb::DATA_SECURITY_CURVE,
                              pb::DATA_SECURITY_TOKEN, pb::DATA_SECURITY_NONE}) {
      for (const auto role : {pb::ROLE_SERVER, pb::ROLE_WORKER}) {
        pb::ControlMessage message = hello(role, "p" + std::to_string(peer), peer);
        message.mutable_hello()->set_data_security(theirs);
        const pb::HelloReply reply =
            reply_to(coordinator, PeerId(peer++), message, kStart).hello_reply();
        CAPTURE(reply.reason());
        const bool fits = theirs == ours || theirs == pb::DATA_SECURITY_ANY;
        CHECK(reply.accepted() == fits);
        if (fits) continue;
        CHECK(reply.reason().find("CURVE") != std::string::npos);
        const char* const other = theirs == pb::DATA_SECURITY_NONE ? "insecure: true" : "TOKEN";
        CHECK(reply.reason().find(other) != std::string::npos);
      }
    }
    // Commands and readers connect to whatever there is.
    pb::ControlMessage client = hello(pb::ROLE_CLIENT, "me", 99);
    CHECK(reply_to(coordinator, PeerId(99), client, kStart).hello_reply().accepted());
  }
}

TEST_CASE("a hello of no known role, or without a name or shards, is refused", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  pb::ControlMessage no_shards = hello(pb::ROLE_SERVER, "s0", 1);
  no_shards.mutable_hello()->clear_shard_addresses();
  for (const auto& message : {hello(pb::ROLE_UNKNOWN, "x", 1), hello(pb::ROLE_WORKER, "", 1),
                              hello(pb::ROLE_WORKER, std::string(1000, 'x'), 1), no_shards}) {
    const pb::HelloReply reply = reply_to(coordinator, PeerId(1), message, kStart).hello_reply();
    CHECK_FALSE(reply.accepted());
    CHECK_FALSE(reply.reason().empty());
  }
  CHECK(reply_to(coordinator, PeerId(1), hello(pb::ROLE_CLIENT, "", 1), kStart)
            .hello_reply()
            .accepted());
}

TEST_CASE("a second live worker of the same name is refused by name", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  const auto first = hello(pb::ROLE_WORKER, "w0", 1);
  const auto second = hello(pb::ROLE_WORKER, "w0", 2);
  CHECK(reply_to(coordinator, PeerId(1), first, kStart).hello_reply().accepted());
  // Whether the first one lives is known once it has spoken again.
  CHECK_FALSE(reply_to(coordinator, PeerId(2), second, kStart + 1s).has_hello_reply());
  CHECK(reply_to(coordinator, PeerId(1), heartbeat(), kStart + 1s).heartbeat_reply().known());
  const pb::HelloReply reply =
      reply_to(coordinator, PeerId(2), second, kStart + 1500ms).hello_reply();
  CHECK_FALSE(reply.accepted());
  CHECK(reply.reason() ==
        "worker \"w0\" has already joined, 1.5 s ago; choose another name with worker { name: "
        "\"...\" }");
  CHECK(reply_to(coordinator, PeerId(1), heartbeat(), kStart + 2s).heartbeat_reply().known());
}

TEST_CASE("a worker and a server may bear the same name", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  CHECK(reply_to(coordinator, PeerId(1), hello(pb::ROLE_WORKER, "x", 1), kStart)
            .hello_reply()
            .accepted());
  CHECK(reply_to(coordinator, PeerId(2), hello(pb::ROLE_SERVER, "x", 2), kStart)
            .hello_reply()
            .accepted());
}

TEST_CASE("the same process is welcome on another connection, in the same life", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  const auto message = hello(pb::ROLE_WORKER, "w0", 1);
  const auto first = reply_to(coordinator, PeerId(1), message, kStart).hello_reply();
  CHECK_FALSE(reply_to(coordinator, PeerId(2), heartbeat(), kStart + 1s).heartbeat_reply().known());
  const auto again = reply_to(coordinator, PeerId(2), message, kStart + 1s).hello_reply();
  CHECK(again.accepted());
  CHECK(again.incarnation() == first.incarnation());
  CHECK(reply_to(coordinator, PeerId(2), heartbeat(), kStart + 2s).heartbeat_reply().known());
  CHECK_FALSE(reply_to(coordinator, PeerId(1), heartbeat(), kStart + 2s).heartbeat_reply().known());
}

TEST_CASE("a silent worker is declared lost, and its name is free for a new life",
          "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  const auto old_one = hello(pb::ROLE_WORKER, "w0", 1);
  const auto life = reply_to(coordinator, PeerId(1), old_one, kStart).hello_reply().incarnation();
  for (int second = 1; second <= 15; ++second) {
    static_cast<void>(coordinator.tick(kStart + std::chrono::seconds(second)));
  }
  const Notes notes = coordinator.tick(kStart + 15s + 1ms).notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes.begin()->text == "worker \"w0\" was silent for 15.0 s and was declared lost");
  CHECK_FALSE(
      reply_to(coordinator, PeerId(1), heartbeat(), kStart + 16s).heartbeat_reply().known());

  SECTION("of the same process, which is told why it was lost") {
    const auto reply = reply_to(coordinator, PeerId(1), old_one, kStart + 16s).hello_reply();
    CHECK(reply.accepted());
    CHECK(reply.incarnation() > life);
    CHECK(reply.lost_reason() == "worker \"w0\" was silent for 15.0 s");
  }
  SECTION("of another process") {
    const auto reply =
        reply_to(coordinator, PeerId(2), hello(pb::ROLE_WORKER, "w0", 2), kStart + 16s)
            .hello_reply();
    CHECK(reply.accepted());
    CHECK(reply.incarnation() > life);
    CHECK(reply.lost_reason().empty());
  }
}

/// A coordinator of workers that send a heartbeat every half second, in steps of 100 ms.
class ClosedConnections {
 public:
  explicit ClosedConnections(std::uint64_t workers) {
    for (std::uint64_t i = 1; i <= workers; ++i) connect(i, PeerId(i));
    run_for(3s);
  }

  /// Worker number i is at this peer from now on.
  void connect(std::uint64_t i, PeerId peer) {
    pb::ControlMessage message = hello(pb::ROLE_WORKER, "w" + std::to_string(i), i);
    message.mutable_hello()->set_heartbeat_interval_s(0.5);
    (void)reply_to(coordinator, peer, message, now);
    peers[i] = peer;
  }
  /// Until something is noted, at most for `time`.
  void run_for(Duration time) {
    for (const TimePoint end = now + time; now < end && notes.size() == 0; now = now + 100ms) {
      notes = coordinator.tick(now).notes;
      if ((now - kStart) % Duration(500ms) == Duration::zero()) {
        for (const auto& [worker, peer] : peers)
          (void)reply_to(coordinator, peer, heartbeat(), now);
      }
      if (is_idle) coordinator.note_idle(now);
    }
  }

  Coordinator coordinator{{}, {}, kStart};
  TimePoint now = kStart;
  Notes notes;
  std::map<std::uint64_t, PeerId> peers;  // of the workers that live
  bool is_idle = true;                    // no message waits to be heard
};

TEST_CASE("a worker whose connection has closed is lost unless it is heard soon", "[coordinator]") {
  ClosedConnections cluster(3);
  cluster.coordinator.note_closed(PeerId(1), cluster.now);
  SECTION("it is not") {
    cluster.peers.erase(1);
    // This one was sent before.
    (void)reply_to(cluster.coordinator, PeerId(1), heartbeat(), cluster.now + 100ms);
    cluster.run_for(1200ms);
    CHECK(cluster.notes.size() == 0);
    cluster.run_for(300ms);
    REQUIRE(cluster.notes.size() == 1);
    CHECK(cluster.notes.begin()->text ==
          "worker \"w1\" was silent for 1.3 s (its connection closed 1.4 s ago) and was declared "
          "lost");
  }
  SECTION("it connects again") {
    cluster.peers.erase(1);
    cluster.run_for(500ms);
    cluster.connect(1, PeerId(11));
    cluster.run_for(20s);
    CHECK(cluster.notes.size() == 0);
  }
  SECTION("the connection is another one's") {
    cluster.run_for(20s);
    CHECK(cluster.notes.size() == 0);
  }
  SECTION("what it has sent may still wait to be heard") {
    cluster.is_idle = false;
    cluster.peers.erase(1);
    cluster.run_for(4s);
    CHECK(cluster.notes.size() == 0);
    cluster.connect(1, PeerId(11));
    cluster.is_idle = true;
    cluster.run_for(20s);
    CHECK(cluster.notes.size() == 0);
  }
}

TEST_CASE("processes that lose their connections together have the whole limit", "[coordinator]") {
  ClosedConnections cluster(4);
  cluster.peers.clear();
  for (std::uint64_t peer = 1; peer <= 4; ++peer) {
    cluster.coordinator.note_closed(PeerId(peer), cluster.now);
    cluster.run_for(100ms);
  }
  cluster.run_for(10s);
  CHECK(cluster.notes.size() == 0);
  cluster.run_for(6s);
  CHECK(cluster.notes.size() > 0);
}

TEST_CASE("a server that a job has given up takes no work in any life, until it is restarted",
          "[coordinator]") {
  Registry registry(15s, 1);
  const auto count = [&] { return registry.available(pb::ROLE_SERVER).size(); };
  (void)registry.greet(PeerId(1), hello(pb::ROLE_SERVER, "s0", 1).hello(), kStart);
  Participant* first =
      registry.greet(PeerId(2), hello(pb::ROLE_SERVER, "s1", 2).hello(), kStart).participant;
  REQUIRE(first != nullptr);
  CHECK(count() == 2);
  registry.avoid(2);
  CHECK(count() == 1);
  CHECK(registry.live(pb::ROLE_SERVER).size() == 2);
  registry.lose(*first, "was silent");
  (void)registry.greet(PeerId(3), hello(pb::ROLE_SERVER, "s1", 2).hello(), kStart);
  CHECK(registry.live(pb::ROLE_SERVER).size() == 2);
  CHECK(count() == 1);
  registry.lose(*first, "was killed");
  (void)registry.greet(PeerId(4), hello(pb::ROLE_SERVER, "s1", 3).hello(), kStart);
  CHECK(count() == 2);
}

TEST_CASE("a worker that is rarely heard has more time after its connection has closed",
          "[coordinator]") {
  Registry registry(15s, 1);
  pb::Hello greeting = hello(pb::ROLE_WORKER, "w0", 1).hello();
  Duration allowed = 15s;
  SECTION("it says so") {
    greeting.set_heartbeat_interval_s(3);
    allowed = 6s;
  }
  SECTION("it has just been silent for longer than it says") {
    greeting.set_heartbeat_interval_s(0.5);
    allowed = 4s;
  }
  SECTION("it does not say how often it is heard"){}(void)registry.greet(PeerId(1), greeting,
                                                                         kStart);
  CHECK(registry.hear(PeerId(1), kStart + 2s) != nullptr);
  registry.note_closed(PeerId(1), kStart + 2s);
  registry.note_idle(kStart + 2s + allowed);
  CHECK(registry.lose_silent(kStart + 2s + allowed).empty());
  registry.note_idle(kStart + 2s + allowed + 1ms);
  CHECK(registry.lose_silent(kStart + 2s + allowed + 1ms).size() == 1);
}

TEST_CASE("a worker that leaves frees its name at once", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  CHECK(reply_to(coordinator, PeerId(1), hello(pb::ROLE_WORKER, "w0", 1), kStart)
            .hello_reply()
            .accepted());
  pb::ControlMessage goodbye;
  goodbye.mutable_goodbye()->set_reason("SIGTERM");
  static_cast<void>(coordinator.handle(PeerId(1), goodbye, kStart + 1s));
  CHECK(reply_to(coordinator, PeerId(2), hello(pb::ROLE_WORKER, "w0", 2), kStart + 1s)
            .hello_reply()
            .accepted());
}

TEST_CASE("no process is declared lost for a pause of the coordinator itself", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  CHECK(reply_to(coordinator, PeerId(1), hello(pb::ROLE_WORKER, "w0", 1), kStart)
            .hello_reply()
            .accepted());
  static_cast<void>(coordinator.tick(kStart + 1s));
  static_cast<void>(coordinator.tick(kStart + 100s));
  CHECK(reply_to(coordinator, PeerId(1), heartbeat(), kStart + 100s).heartbeat_reply().known());
}

TEST_CASE("messages that are not for the coordinator are ignored", "[coordinator]") {
  Coordinator coordinator({}, {}, kStart);
  pb::ControlMessage message;
  message.mutable_worker_job()->set_job(3);
  CHECK(coordinator.handle(PeerId(1), message, kStart).messages.empty());
  message.mutable_server_job_reply()->set_job(3);
  CHECK(coordinator.handle(PeerId(1), message, kStart).messages.empty());
}

TEST_CASE("workers that join and leave under ever new names keep no other out", "[coordinator]") {
  Registry registry(15s, 1);
  TimePoint now(1h);
  pb::Hello hello;
  hello.set_role(pb::ROLE_WORKER);
  for (std::uint64_t i = 1; i <= 20000; ++i) {
    hello.set_name("pod-" + std::to_string(i));
    hello.set_session(i);
    const Greeting greeting = registry.greet(PeerId(i), hello, now);
    REQUIRE(greeting.participant != nullptr);
    registry.lose(*greeting.participant, "it said goodbye");
    now = now + 1s;
  }
  CHECK(registry.all(pb::ROLE_WORKER).size() <= 1025);
  // The newest of them are remembered, with the reason.
  const Participant* last = registry.find(pb::ROLE_WORKER, "pod-20000");
  REQUIRE(last != nullptr);
  CHECK(last->lost_reason == "it said goodbye");
}

TEST_CASE("each process is lost when its own silence exceeds the limit, not later",
          "[coordinator]") {
  Registry registry(15s, 1);
  const TimePoint start(1h);
  pb::Hello hello;
  hello.set_role(pb::ROLE_WORKER);
  const auto join = [&](std::uint64_t number, TimePoint now) {
    hello.set_name("w" + std::to_string(number));
    hello.set_session(number);
    REQUIRE(registry.greet(PeerId(number), hello, now).participant != nullptr);
  };
  const auto lost_at = [&](TimePoint now) {
    std::vector<std::string> names;
    for (const Participant* one : registry.lose_silent(now)) names.push_back(one->name);
    return names;
  };
  CHECK(lost_at(start).empty());
  join(1, start);
  join(2, start + 1s);
  REQUIRE(registry.hear(PeerId(1), start + 10s) != nullptr);
  CHECK(lost_at(start + 16s).empty());
  CHECK(lost_at(start + 17s) == std::vector<std::string>{"w2"});
  // One that joins after a search, and one that was recovered, have their own times.
  join(3, start + 18s);
  CHECK(lost_at(start + 25s).empty());
  CHECK(lost_at(start + 26s) == std::vector<std::string>{"w1"});
  Participant known;
  known.role = pb::ROLE_WORKER;
  known.name = "w4";
  registry.recover(known, start + 27s);
  CHECK(lost_at(start + 34s) == std::vector<std::string>{"w3"});
  registry.excuse_silence(5s, start + 35s);
  CHECK(lost_at(start + 47s).empty());
  CHECK(lost_at(start + 48s) == std::vector<std::string>{"w4"});
}

TEST_CASE("a registry takes as many processes as it is made for", "[coordinator]") {
  Registry registry(15s, 1, 2);
  pb::Hello hello;
  hello.set_role(pb::ROLE_WORKER);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    hello.set_name("w" + std::to_string(i));
    hello.set_session(i);
    CHECK((registry.greet(PeerId(i), hello, TimePoint(1h)).participant != nullptr) == (i <= 2));
  }
}

}  // namespace taut
