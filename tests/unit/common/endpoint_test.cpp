// One suite for all transports: what holds in memory must hold over ZeroMQ and over UCX.
#include "common/net/endpoint.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

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
using test::zmq_transport;

/// A port on which nothing listens, and none did just now: closing a plain socket is immediate.
int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  REQUIRE(bind(probe, reinterpret_cast<sockaddr*>(&place), size) == 0);
  REQUIRE(getsockname(probe, reinterpret_cast<sockaddr*>(&place), &size) == 0);
  close(probe);
  return ntohs(place.sin_port);
}

}  // namespace

TEST_CASE("a message arrives whole and can be answered", "[endpoint]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    Pair pair = connected(transport);
    REQUIRE(pair.client->send(pair.to_server, message({"head", "", "tail"})));
    const auto got = pair.server->receive(kWait);
    REQUIRE(got);
    REQUIRE(got->message.frames.size() == 3);
    CHECK(got->message.frames[0].text() == "head");
    CHECK(got->message.frames[1].empty());
    CHECK(got->message.frames[2].text() == "tail");
    REQUIRE(pair.server->send(got->from, message({"reply"})));
    const auto reply = pair.client->receive(kWait);
    REQUIRE(reply);
    CHECK(reply->from == pair.to_server);
    CHECK(reply->message.frames[0].text() == "reply");
  }
}

TEST_CASE("a process that receives nothing is reached, and one that does not exist is not",
          "[endpoint]") {
  const Transport transport = zmq_transport();  // it outlives the sockets
  Pair pair = connected(transport);
  const PeerId to_none = pair.client->connect("127.0.0.1:" + std::to_string(free_port())).value();
  CHECK_FALSE(pair.client->has_reached(pair.to_server));
  const TimePoint deadline = steady_now() + kWait;
  while (!pair.client->has_reached(pair.to_server) && steady_now() < deadline) {
    CHECK_FALSE(pair.client->receive(std::chrono::milliseconds(20)));
  }
  CHECK(pair.client->has_reached(pair.to_server));
  CHECK_FALSE(pair.client->has_reached(to_none));
}

TEST_CASE("one connection preserves the order of its messages", "[endpoint]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    Pair pair = connected(transport);
    for (int i = 0; i < 500; ++i) {
      REQUIRE(pair.client->send(pair.to_server, message({std::to_string(i)})));
    }
    for (int i = 0; i < 500; ++i) {
      const auto got = pair.server->receive(kWait);
      REQUIRE(got);
      CHECK(got->message.frames[0].text() == std::to_string(i));
    }
  }
}

TEST_CASE("messages sent before the listener exists arrive when it starts", "[endpoint]") {
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    // Another process may take the port before us: then the next one is tried.
    bool has_arrived = false;
    for (int round = 0; round < 10 && !has_arrived; ++round) {
      const std::string address = "127.0.0.1:" + std::to_string(free_port());
      auto client = transport.make({});
      const PeerId server = client->connect(address).value();
      REQUIRE(client->send(server, message({"early"})));
      auto late = transport.make({});
      if (!late->bind(address)) continue;
      const auto got = late->receive(kWait);
      REQUIRE(got);
      CHECK(got->message.frames[0].text() == "early");
      has_arrived = true;
    }
    CHECK(has_arrived);
  }
}

TEST_CASE("a taken port is reported as taken", "[endpoint]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    auto one = transport.make({});
    auto two = transport.make({});
    const std::string address = one->bind("127.0.0.1:0").value();
    const auto refused = two->bind(address);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kExists);
    CHECK(refused.error().message.find("in use") != std::string::npos);
    CHECK(refused.error().message.find(address) != std::string::npos);
  }
}

TEST_CASE("a wait for a message ends when its time is over", "[endpoint]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    auto endpoint = transport.make({});
    CHECK_FALSE(endpoint->receive(Duration(20'000)));
  }
}

TEST_CASE("a wake-up ends a wait", "[endpoint]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    auto endpoint = transport.make({});
    endpoint->wake();
    const TimePoint before = steady_now();
    CHECK_FALSE(endpoint->receive(kWait));
    CHECK(steady_now() - before < kWait);
  }
}

TEST_CASE("a peer that never was cannot be sent to", "[endpoint]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    Pair pair = connected(transport);
    const auto sent = pair.server->send(PeerId(999), message({"x"}));
    REQUIRE_FALSE(sent);
    CHECK(sent.error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE("a large payload is shared, not copied, and lives until it was sent", "[endpoint]") {
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    Pair pair = connected(transport);
    BufferPool pool;
    Buffer buffer = pool.acquire(1 << 20);
    std::memset(buffer.data(), 7, buffer.size());
    Message payload;
    payload.frames.emplace_back(buffer);
    const auto sent = pair.client->send(pair.to_server, std::move(payload));
    REQUIRE(sent);
    const auto got = pair.server->receive(kWait);
    REQUIRE(got);
    CHECK(got->message.frames[0].size() == buffer.size());
    CHECK(std::memcmp(got->message.frames[0].bytes().data(), buffer.data(), buffer.size()) == 0);
    // The transport releases it in the end.
    const TimePoint deadline = steady_now() + kWait;
    while (!buffer.unshared() && steady_now() < deadline) std::this_thread::yield();
    CHECK(buffer.unshared());
  }
}

TEST_CASE("a peer that has gone cannot be sent to any more", "[endpoint]") {
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    Pair pair = connected(transport);
    REQUIRE(pair.client->send(pair.to_server, message({"hello"})));
    const auto hello = pair.server->receive(kWait);
    REQUIRE(hello);
    pair.client.reset();
    Result<void> last = ok();
    const TimePoint deadline = steady_now() + kWait;
    while ((last = pair.server->send(hello->from, message({"answer"}))) &&
           steady_now() < deadline) {
      CHECK_FALSE(pair.server->receive(Duration(10'000)));
    }
    REQUIRE_FALSE(last.has_value());
    CHECK(last.error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE("a connection is restored when its listener starts again", "[endpoint]") {
  prepare_to_listen_on_ucx();
  for (const Transport& transport : real_transports()) {
    INFO(transport.name);
    Pair pair = connected(transport);
    REQUIRE(pair.client->send(pair.to_server, message({"hello"})));
    REQUIRE(pair.server->receive(kWait));
    pair.server.reset();
    const auto again = transport.make({});
    // ZeroMQ closes the earlier socket in the background.
    const TimePoint deadline = steady_now() + kWait;
    while (!again->bind(pair.address)) REQUIRE(steady_now() < deadline);
    std::optional<Incoming> got;
    while (!got && steady_now() < deadline) {
      (void)pair.client->send(pair.to_server, message({"again"}));
      got = again->receive(Duration(50'000));
    }
    REQUIRE(got);
    CHECK(got->message.frames[0].text() == "again");
    REQUIRE(again->send(got->from, message({"welcome"})));
    const auto welcome = pair.client->receive(kWait);
    REQUIRE(welcome);
    CHECK(welcome->from == pair.to_server);
  }
}

TEST_CASE("the in-memory network drops, repeats and reorders as determined by its seed",
          "[endpoint]") {
  const auto run = [](std::uint64_t seed) {
    NetworkFaults faults;
    faults.drop = 0.3;
    faults.duplicate = 0.3;
    faults.reorder = true;
    faults.delay_max = Duration(5000);
    MemoryNetwork network(seed, faults);
    auto server = network.make_endpoint();
    auto client = network.make_endpoint();
    const PeerId to = client->connect(server->bind("127.0.0.1:0").value()).value();
    for (int i = 0; i < 100; ++i) {
      if (!client->send(to, message({std::to_string(i)}))) return std::string("failed");
    }
    std::string order;
    while (auto got = server->receive(Duration(1'000'000))) {
      order += std::string(got->message.frames[0].text()) + " ";
    }
    return order;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("a partition is one way and heals", "[endpoint]") {
  MemoryNetwork network(1);
  auto server = network.make_endpoint();
  auto client = network.make_endpoint();
  const PeerId to = client->connect(server->bind("127.0.0.1:0").value()).value();
  network.name(*server, "server");
  network.name(*client, "client");
  network.partition("client", "server");
  REQUIRE(client->send(to, message({"lost"})));
  CHECK_FALSE(server->receive(Duration(10'000)));
  network.heal();
  REQUIRE(client->send(to, message({"found"})));
  const auto got = server->receive(Duration(10'000));
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "found");

  network.break_connections(*client);
  REQUIRE(client->send(to, message({"again"})));
  const auto reconnected = server->receive(Duration(10'000));
  REQUIRE(reconnected);
  CHECK(reconnected->from != got->from);
}

TEST_CASE("a peer whose connection has closed is named, and not where it has said nothing",
          "[net]") {
  const Transport zmq = zmq_transport();
  const auto listener = zmq.make({});
  const auto address = listener->bind("127.0.0.1:0");
  REQUIRE(address);
  const auto speaker = zmq.make({});
  const auto staying = zmq.make({});
  const auto silent = zmq.make({});
  std::vector<PeerId> connections;
  for (const auto& one : {speaker.get(), staying.get(), silent.get()}) {
    connections.push_back(one->connect(address.value()).value());
  }
  REQUIRE(speaker->send(connections[0], message({"speaker"})));
  REQUIRE(staying->send(connections[1], message({"staying"})));
  std::map<std::string, PeerId> peers;
  while (peers.size() < 2) {
    const auto incoming = listener->receive(kWait);
    REQUIRE(incoming);
    peers[std::string(incoming->message.frames[0].text())] = incoming->from;
  }
  CHECK(listener->take_closed().empty());
  speaker->disconnect(connections[0]);
  silent->disconnect(connections[2]);
  std::vector<PeerId> closed;
  for (int i = 0; i < 500 && closed.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    closed = listener->take_closed();
  }
  CHECK(closed == std::vector<PeerId>{peers.at("speaker")});
  CHECK(listener->take_closed().empty());
  // Its descriptor is another connection's at once.
  for (int i = 0; i < 20; ++i) {
    const PeerId again = speaker->connect(address.value()).value();
    REQUIRE(speaker->send(again, message({"again"})));
    const auto incoming = listener->receive(kWait);
    REQUIRE(incoming);
    speaker->disconnect(again);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::set<PeerId> named;
  for (int i = 0; i < 500 && named.size() < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (const PeerId peer : listener->take_closed()) named.insert(peer);
  }
  CHECK(named.size() == 20);
  CHECK_FALSE(named.contains(peers.at("staying")));
  CHECK(listener->send(peers.at("staying"), message({"answer"})));
}
