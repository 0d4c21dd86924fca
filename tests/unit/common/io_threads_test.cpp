// Which of ZeroMQ's threads carries which connection.
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

constexpr Duration kWait{5'000'000};
constexpr int kThreads = 4;
constexpr int kConnections = 8;

/// The port at the other end of a connection over IPv4; 0: the descriptor is none.
int peer_port(int descriptor) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return 0;
  return peer.sin_family == AF_INET ? ntohs(peer.sin_port) : 0;
}

/// How many connections to a port each thread of this process polls; those without any are left
/// out. A thread's descriptors are in the fdinfo of its epoll, see proc(5).
std::vector<int> connections_of_threads(int port) {
  std::vector<int> counts;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    int count = 0;
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("tfd:") && peer_port(std::stoi(line.substr(4))) == port) ++count;
    }
    if (count > 0) counts.push_back(count);
  }
  return counts;
}

}  // namespace

TEST_CASE("connections that one endpoint makes at once are divided evenly among I/O threads",
          "[endpoint]") {
  ZmqContext serving(Security::insecure());
  ZmqContext calling(Security::insecure(), kThreads);
  const auto server = serving.make_endpoint();
  const std::string address = server->bind("127.0.0.1:0").value();
  const auto client = calling.make_endpoint();
  std::vector<PeerId> peers;
  for (int i = 0; i < kConnections; ++i) peers.push_back(client->connect(address).value());
  for (const PeerId peer : peers) {
    Message greeting;
    greeting.frames.push_back(Frame::copy_of("here"));
    REQUIRE(client->send(peer, std::move(greeting)).has_value());
  }
  for (int i = 0; i < kConnections; ++i) REQUIRE(server->receive(kWait).has_value());
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  CHECK(connections_of_threads(port) == std::vector<int>(kThreads, kConnections / kThreads));
}

}  // namespace taut
