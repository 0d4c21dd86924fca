#include "lab/network.hpp"

#include "tests/support/catch.hpp"

namespace taut::sim {

TEST_CASE("a socket that closes ends its own connections and those to it, in their order",
          "[lab]") {
  Network network(7, LinkFaults(), 0);
  const SocketId first = network.open(1);
  network.listen(first, "a");
  network.listen(first, "b");
  const SocketId second = network.open(2);
  network.listen(second, "c");
  const SocketId third = network.open(3);
  // As their listeners know them.
  std::vector<PeerId> peers;
  const auto connect = [&](SocketId from, const std::string& address) {
    network.send(from, network.connect(from, address), Message{});
    const auto delivery = network.take_next();
    REQUIRE(delivery.has_value());
    peers.push_back(delivery->from);
  };
  connect(third, "b");
  connect(first, "c");
  connect(third, "c");
  connect(second, "a");
  connect(first, "a");
  network.close(first);
  CHECK(network.take_closed() == std::vector<PeerId>{peers[0], peers[1], peers[3], peers[4]});
  network.close(second);
  CHECK(network.take_closed() == std::vector<PeerId>{peers[2]});
  network.close(third);
  CHECK(network.take_closed().empty());
}

}  // namespace taut::sim
