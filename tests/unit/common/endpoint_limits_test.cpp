// What endpoints of all transports take, and how much of it may wait.
#include "common/net/endpoint.hpp"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "tests/unit/common/transports.hpp"

using namespace taut;

namespace {

using test::connected;
using test::kWait;
using test::message;
using test::Pair;
using test::real_transports;
using test::Transport;
using test::transports;

}  // namespace

TEST_CASE("frames beyond the limit never arrive, and the endpoint continues", "[endpoint]") {
  EndpointLimits limits;
  limits.frame = Bytes(1000);
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    Pair pair = connected(transport, limits);
    REQUIRE(pair.client->send(pair.to_server, message({std::string(1001, 'x')})));
    CHECK_FALSE(pair.server->receive(Duration(200'000)));
    auto other = transport.make(limits);
    const PeerId again = other->connect(pair.address).value();
    REQUIRE(other->send(again, message({"small"})));
    const auto got = pair.server->receive(kWait);
    REQUIRE(got);
    CHECK(got->message.frames[0].text() == "small");
  }
}

TEST_CASE("a message of too many frames is dropped, and the endpoint continues", "[endpoint]") {
  EndpointLimits limits;
  limits.frames = 3;
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    Pair pair = connected(transport, limits);
    REQUIRE(pair.client->send(pair.to_server, message({"1", "2", "3", "4"})));
    REQUIRE(pair.client->send(pair.to_server, message({"fits"})));
    std::optional<Incoming> got;
    for (int i = 0; !got && i < 10; ++i) got = pair.server->receive(kWait);
    REQUIRE(got);
    CHECK(got->message.frames[0].text() == "fits");
  }
}

TEST_CASE("a message of too many bytes in several frames never arrives where few may wait",
          "[endpoint]") {
  EndpointLimits limits;
  limits.frame = Bytes(100'000);
  limits.arrived_messages = 2;
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    Pair pair = connected(transport, limits);
    const std::string part(60'000, 'x');
    REQUIRE(pair.client->send(pair.to_server, message({part, part})));
    CHECK_FALSE(pair.server->receive(Duration(200'000)));
    auto other = transport.make(limits);
    const PeerId again = other->connect(pair.address).value();
    REQUIRE(other->send(again, message({part})));
    const auto got = pair.server->receive(kWait);
    REQUIRE(got);
    CHECK(got->message.frames.size() == 1);
    CHECK(got->message.frames[0].size() == part.size());
  }
}

TEST_CASE("a process that opens many connections displaces no peer that speaks", "[endpoint]") {
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    EndpointLimits limits;
    limits.peers = 4;
    const auto server = transport.make(limits);
    const std::string address = server->bind("127.0.0.1:0").value();
    const auto speaker = transport.make({});
    const PeerId to_server = speaker->connect(address).value();
    std::set<std::uint64_t> seen;
    std::optional<PeerId> known;
    for (int i = 0; i < 12; ++i) {
      REQUIRE(speaker->send(to_server, message({"I speak"})));
      const auto heard = server->receive(kWait);
      REQUIRE(heard);
      if (!known) known = heard->from;
      CHECK(heard->from == *known);
      REQUIRE(server->send(*known, message({"heard"})));
      REQUIRE(speaker->receive(kWait));
      const auto other = transport.make({});
      REQUIRE(other->send(other->connect(address).value(), message({"me too"})));
      const auto one = server->receive(kWait);
      REQUIRE(one);
      seen.insert(one->from.value());
    }
    CHECK(seen.size() == 12);
  }
}

TEST_CASE("what a peer sends faster than it is received waits at its own end", "[endpoint]") {
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    EndpointLimits limits;
    limits.queued_messages = 4;
    limits.unread = Bytes(4ULL << 30U);
    EndpointLimits few;
    few.arrived_messages = 4;
    const auto server = transport.make(few);
    const auto client = transport.make(limits);
    const PeerId to_server = client->connect(server->bind("127.0.0.1:0").value()).value();
    REQUIRE(client->send(to_server, message({"hello"})));
    REQUIRE(server->receive(kWait));
    const Frame payload = Frame::copy_of(std::string(1U << 20U, 'x'));
    int sent = 0;
    // A little later the system's buffers are full too.
    const TimePoint deadline = steady_now() + Duration(500'000);
    while (sent < 200 && steady_now() < deadline) {
      if (client->send(to_server, Message{{payload}})) {
        ++sent;
      } else {
        std::this_thread::sleep_for(Duration(1000));
      }
    }
    CHECK(sent < 40);
    for (int i = 0; i < sent; ++i) REQUIRE(server->receive(kWait));
    CHECK(client->send(to_server, Message{{payload}}));
    CHECK(server->receive(kWait));
  }
}

TEST_CASE("what a peer does not read is limited in bytes", "[endpoint]") {
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    EndpointLimits limits;
    limits.unread = Bytes(8ULL << 20U);
    const auto server = transport.make(limits);
    EndpointLimits small;
    small.queued_messages = 1;  // its I/O thread does not read ahead either
    const auto client = transport.make(small);
    const PeerId to_server = client->connect(server->bind("127.0.0.1:0").value()).value();
    REQUIRE(client->send(to_server, message({"hello"})));
    const auto hello = server->receive(kWait);
    REQUIRE(hello);
    const Frame payload = Frame::copy_of(std::string(1U << 20U, 'x'));
    int sent = 0;
    Result<void> last = ok();
    while (sent < 200 && (last = server->send(hello->from, Message{{payload, payload}}))) ++sent;
    REQUIRE_FALSE(last.has_value());
    CHECK(last.error().code == ErrorCode::kUnavailable);
    CHECK(server->unread(hello->from) <= limits.unread.value());
    // Once it has read them, it gets more.
    for (int i = 0; i < sent; ++i) REQUIRE(client->receive(kWait));
    const TimePoint deadline = steady_now() + kWait;
    while (server->unread(hello->from) > 0 && steady_now() < deadline) {
      std::this_thread::sleep_for(Duration(1000));
    }
    CHECK(server->unread(hello->from) == 0);
    CHECK(server->send(hello->from, Message{{payload}}));
  }
}
