#include "common/net/faulty_endpoint.hpp"

#include <string>
#include <vector>

#include "common/net/memory_network.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

Message message(const std::string& text) {
  return {{Frame::copy_of(text)}};
}

/// A listener, and a connected endpoint behind a worse network, in virtual time.
struct Line {
  explicit Line(LinkFaults faults, std::uint64_t seed = 1)
      : network(1, {.delay_min = Duration(0), .delay_max = Duration(0)}),
        listener(network.make_endpoint()),
        faulty(network.make_endpoint(), faults, seed, [this] { return network.now(); }) {
    peer = faulty.connect(listener->bind("a:0").value()).value();
  }
  /// What has arrived at the listener by now.
  std::vector<std::string> arrived() {
    std::vector<std::string> texts;
    while (auto incoming = listener->receive(Duration(0))) {
      texts.emplace_back(incoming->message.frames[0].text());
      from = incoming->from;
    }
    return texts;
  }
  void send(const std::string& text) { REQUIRE(faulty.send(peer, message(text)).has_value()); }

  MemoryNetwork network;
  std::unique_ptr<Endpoint> listener;
  FaultyEndpoint faulty;
  PeerId peer;
  PeerId from;
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("sent and received messages are delayed", "[faulty]") {
  Line line({.delay = Duration(300)});
  line.send("ping");
  CHECK_FALSE(line.faulty.receive(Duration(299)).has_value());
  CHECK(line.arrived().empty());
  CHECK_FALSE(line.faulty.receive(Duration(1)).has_value());
  CHECK(line.arrived() == Texts{"ping"});
  REQUIRE(line.listener->send(line.from, message("pong")).has_value());
  const auto answer = line.faulty.receive(Duration(1000));
  REQUIRE(answer.has_value());
  CHECK(answer->message.frames[0].text() == "pong");
  CHECK(line.network.now() == TimePoint(Duration(600)));
}

TEST_CASE("with jitter no message overtakes another", "[faulty]") {
  Line line({.delay = Duration(100), .jitter = Duration(500)});
  Texts sent;
  for (int i = 0; i < 50; ++i) {
    sent.push_back(std::to_string(i));
    line.send(sent.back());
    CHECK_FALSE(line.faulty.receive(Duration(20)).has_value());
  }
  CHECK_FALSE(line.faulty.receive(Duration(1000)).has_value());
  CHECK(line.arrived() == sent);
}

TEST_CASE("a share of the messages is lost, the same for the same seed", "[faulty]") {
  const auto kept = [](std::uint64_t seed) {
    Line line({.loss = 0.25}, seed);
    for (int i = 0; i < 400; ++i) line.send(std::to_string(i));
    CHECK_FALSE(line.faulty.receive(Duration(1)).has_value());
    return line.arrived();
  };
  const Texts one = kept(7);
  CHECK(one.size() > 250);
  CHECK(one.size() < 350);
  CHECK(one == kept(7));
  CHECK(one != kept(8));
}

TEST_CASE("a slow network's queue is bounded", "[faulty]") {
  Line line({.delay = Duration(1'000'000)});
  const std::size_t max_queued = EndpointLimits().queued_messages;
  for (std::size_t i = 0; i < max_queued; ++i) line.send("x");
  const auto refused = line.faulty.send(line.peer, message("x"));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("messages for a peer that is given up are dropped", "[faulty]") {
  Line line({.delay = Duration(100)});
  line.send("x");
  line.faulty.disconnect(line.peer);
  CHECK_FALSE(line.faulty.receive(Duration(500)).has_value());
  CHECK(line.arrived().empty());
}

TEST_CASE("a wake-up is not lost on a faulty network", "[faulty]") {
  ZmqContext context{Security::insecure()};
  FaultyEndpoint endpoint(context.make_endpoint(), {.delay = Duration(100)}, 1);
  endpoint.wake();
  const TimePoint begin = steady_now();
  CHECK_FALSE(endpoint.receive(Duration(20'000'000)).has_value());
  CHECK(steady_now() - begin < Duration(10'000'000));
}
