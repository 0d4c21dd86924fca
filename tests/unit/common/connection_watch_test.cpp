// Connections that cost more than they may are closed; those of others continue.
#include "common/net/zmq/connection_watch.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"

namespace taut::watching {
namespace {

constexpr Duration kWait{10'000'000};
constexpr std::size_t kMiB = 1UL << 20U;

/// A connection that speaks ZMTP 3.0 without keys, and says what no client would.
/// Source: https://rfc.zeromq.org/spec/23/
class Wire {
 public:
  explicit Wire(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port =
        htons(static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    (void)setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Wire() { close(socket_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// The greeting and READY; returns once the other side has sent its own.
  void greet() {
    std::string greeting("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    REQUIRE(say(greeting));
    std::string ready(
        "\x05READY\x0bSocket-Type\0\0\0\x06"
        "DEALER",
        28);
    REQUIRE(say(std::string("\x04", 1) + static_cast<char>(ready.size()) + ready));
    std::string heard(64 + 2, '\0');
    REQUIRE(recv(socket_, heard.data(), heard.size(), MSG_WAITALL) ==
            static_cast<ssize_t>(heard.size()));
  }
  /// Returns whether the other side takes it.
  bool say(const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return false;
      sent += static_cast<std::size_t>(more);
    }
    return true;
  }
  /// One frame of a message, after which more follow.
  static std::string part(std::size_t bytes) { return head(bytes, true) + std::string(bytes, 'x'); }
  static std::string head(std::uint64_t bytes, bool more) {
    std::string text(1, static_cast<char>(more ? 3 : 2));
    for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>((bytes >> shift) & 0xff);
    return text;
  }

 private:
  const int socket_;
};

EndpointLimits limits_of(std::size_t frame) {
  EndpointLimits limits;
  limits.frame = Bytes(frame);
  limits.arrived_messages = 2;
  return limits;
}

Message words(const std::string& text) {
  return Message{{Frame::copy_of(text)}};
}

}  // namespace

TEST_CASE("a message that never ends closes its connection, and others continue", "[endpoint]") {
  ZmqContext context(Security::insecure());
  const auto server = context.make_endpoint(limits_of(kMiB));
  const std::string address = server->bind("127.0.0.1:0").value();
  const auto client = context.make_endpoint();
  const PeerId to_server = client->connect(address).value();
  REQUIRE(client->send(to_server, words("hello")));
  REQUIRE(server->receive(kWait));
  Wire hostile(address);
  hostile.greet();
  const std::string part = Wire::part(64UL << 10U);
  std::size_t sent = 0;
  while (sent < 4096 * kMiB && hostile.say(part)) sent += part.size();
  // It is closed within the time between two looks, in which it can send much.
  CHECK(sent < 1024 * kMiB);
  REQUIRE(client->send(to_server, words("still here")));
  const auto got = server->receive(kWait);
  REQUIRE(got);
  CHECK(got->message.frames.at(0).text() == "still here");
}

TEST_CASE("a message of many frames is limited in bytes as one frame is", "[endpoint]") {
  ZmqContext context(Security::insecure());
  const auto server = context.make_endpoint(limits_of(kMiB));
  const std::string address = server->bind("127.0.0.1:0").value();
  Wire hostile(address);
  hostile.greet();
  const std::string part = Wire::part(400UL << 10U);
  REQUIRE(hostile.say(part + part + part + Wire::head(1, false) + "x"));
  CHECK_FALSE(server->receive(Duration(200'000)));
  // Until it is closed.
  const TimePoint deadline = steady_now() + kWait;
  while (hostile.say(Wire::head(1, false) + "x") && steady_now() < deadline) {
    (void)server->receive(Duration(1'000));
  }
  CHECK(steady_now() < deadline);
}

TEST_CASE("a peer whose messages are received may send any number of bytes", "[endpoint]") {
  ZmqContext context(Security::insecure());
  const auto server = context.make_endpoint(limits_of(kMiB));
  const std::string address = server->bind("127.0.0.1:0").value();
  const auto client = context.make_endpoint();
  const PeerId to_server = client->connect(address).value();
  // One may be received and not known to be so yet, while the next ones arrive.
  const std::string text(kMiB / 4, 'x');
  std::optional<PeerId> known;
  for (int i = 0; i < 200; ++i) {
    REQUIRE(client->send(to_server, words(text)));
    const auto got = server->receive(kWait);
    REQUIRE(got);
    if (!known) known = got->from;
    REQUIRE(got->from == *known);  // it was never made again
  }
}

TEST_CASE("those who have sent no message share what they may have begun", "[endpoint]") {
  ZmqContext context(Security::insecure());
  EndpointLimits limits;
  limits.frame = Bytes(64 * kMiB);
  const auto server = context.make_endpoint(limits);
  const std::string address = server->bind("127.0.0.1:0").value();
  // None is above the limit of one; the last has begun little.
  std::vector<std::unique_ptr<Wire>> strangers;
  const std::string piece(kMiB, 'x');
  int closed = 0;
  for (const int pieces : {10, 10, 10, 10, 2}) {
    strangers.push_back(std::make_unique<Wire>(address));
    strangers.back()->greet();
    strangers.back()->say(Wire::head(40 * kMiB, true));
    for (int k = 0; k < pieces; ++k) strangers.back()->say(piece);
  }
  const TimePoint deadline = steady_now() + kWait;
  while (closed == 0 && steady_now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const auto& one : strangers) {
      if (!one->say("x")) ++closed;
    }
  }
  CHECK(closed > 0);
  CHECK(closed < 5);
  CHECK(strangers.back()->say("x"));
}

}  // namespace taut::watching
