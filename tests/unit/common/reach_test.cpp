#include "common/net/reach.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

constexpr Duration kWithin{5'000'000};

/// Listens on a loopback address.
class Listener {
 public:
  explicit Listener(int family) : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 ipv6{};
    sockaddr_in ipv4{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_addr = in6addr_loopback;
    ipv4.sin_family = AF_INET;
    ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = family == AF_INET6 ? reinterpret_cast<sockaddr*>(&ipv6)
                                       : reinterpret_cast<sockaddr*>(&ipv4);
    socklen_t size = family == AF_INET6 ? sizeof ipv6 : sizeof ipv4;
    listens_ = socket_ >= 0 && ::bind(socket_, address, size) == 0 && ::listen(socket_, 4) == 0 &&
               ::getsockname(socket_, address, &size) == 0;
    port_ = ntohs(family == AF_INET6 ? ipv6.sin6_port : ipv4.sin_port);
  }
  ~Listener() {
    if (socket_ >= 0) ::close(socket_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// False: this machine has no such addresses.
  [[nodiscard]] bool listens() const { return listens_; }
  [[nodiscard]] std::string at(const std::string& host) const {
    return host + ":" + std::to_string(port_);
  }

 private:
  int socket_;
  bool listens_ = false;
  std::uint16_t port_ = 0;
};

}  // namespace

TEST_CASE("a name is looked up as ZeroMQ looks it up: only among addresses of IPv4", "[reach]") {
  const Listener ipv4(AF_INET);
  REQUIRE(ipv4.listens());
  CHECK(try_to_reach(ipv4.at("127.0.0.1"), kWithin).has_value());
  CHECK(try_to_reach(ipv4.at("localhost"), kWithin).has_value());
  const Listener ipv6(AF_INET6);
  if (!ipv6.listens()) return;
  CHECK(try_to_reach(ipv6.at("[::1]"), kWithin).has_value());
  const auto refused = try_to_reach(ipv6.at("localhost"), kWithin);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("refuses connections"));
}

TEST_CASE("what cannot be reached is said as a predicate", "[reach]") {
  std::string closed;
  {
    const Listener gone(AF_INET);
    closed = gone.at("127.0.0.1");
  }
  CHECK_THAT(try_to_reach(closed, kWithin).error().message, Contains("refuses connections"));
  CHECK(try_to_reach("no.such.name.invalid:80", kWithin).error().code == ErrorCode::kNotFound);
}

TEST_CASE("this machine's address is the one with which it reaches another's", "[reach]") {
  CHECK(local_host_towards("127.0.0.1:7600").value() == "127.0.0.1");
  CHECK_THAT(local_host_towards("no.such.name.invalid:80").error().message,
             Contains("no.such.name.invalid:80: has a name that is not known here"));
}

}  // namespace taut
