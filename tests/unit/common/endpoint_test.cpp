// One suite for all transports: what holds in memory must hold over ZeroMQ and over UCX.
#include "common/net/endpoint.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "common/net/memory_network.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

constexpr Duration kWait{5'000'000};

Message message(std::initializer_list<std::string> parts) {
  Message made;
  for (const std::string& part : parts) made.frames.push_back(Frame::copy_of(part));
  return made;
}

/// A transport under test.
struct Transport {
  std::string name;
  std::function<std::unique_ptr<Endpoint>(EndpointLimits)> make;
  std::shared_ptr<void> alive;
};

Transport zmq_transport() {
  auto context = std::make_shared<ZmqContext>(Security::insecure());
  return {"ZeroMQ", [context](EndpointLimits limits) { return context->make_endpoint(limits); },
          context};
}

Transport memory_transport() {
  auto network = std::make_shared<MemoryNetwork>(1);
  return {"memory", [network](EndpointLimits limits) { return network->make_endpoint(limits); },
          network};
}

/// chosen  UCX's transports, as a user's environment names them
Transport ucx_transport(const std::string& chosen) {
  struct Settings {
    const Security security = Security::insecure();
    const std::optional<TokenKey> tokens;
  };
  auto settings = std::make_shared<Settings>();
  const auto make = [settings, chosen](EndpointLimits limits) -> std::unique_ptr<Endpoint> {
    setenv("UCX_TLS", chosen.c_str(), 1);
    auto made = make_ucx_endpoint(settings->security, settings->tokens, limits);
    unsetenv("UCX_TLS");
    REQUIRE(made);
    return std::move(made.value());
  };
  return {"UCX over " + chosen, make, settings};
}

bool has_ucx() {
  const Security security = Security::insecure();
  const std::optional<TokenKey> tokens;
  return make_ucx_endpoint(security, tokens, {}).has_value();
}

/// Those between processes.
std::vector<Transport> real_transports() {
  std::vector<Transport> all{zmq_transport()};
  if (has_ucx()) {
    all.push_back(ucx_transport("tcp"));
    all.push_back(ucx_transport("tcp,posix,cma"));
  }
  return all;
}

std::vector<Transport> transports() {
  std::vector<Transport> all = real_transports();
  all.push_back(memory_transport());
  return all;
}

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

struct Pair {
  std::unique_ptr<Endpoint> server;
  std::unique_ptr<Endpoint> client;
  PeerId to_server;
  std::string address;
};

Pair connected(const Transport& transport, EndpointLimits limits = {}) {
  Pair pair{transport.make(limits), transport.make(limits), {}, {}};
  pair.address = pair.server->bind("127.0.0.1:0").value();
  pair.to_server = pair.client->connect(pair.address).value();
  return pair;
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
    // The transport lets go of it in the end.
    const TimePoint deadline = steady_now() + kWait;
    while (!buffer.unshared() && steady_now() < deadline) std::this_thread::yield();
    CHECK(buffer.unshared());
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
