#include "common/net/reach.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>

namespace taut {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// A socket that is closed with its owner.
struct Socket {
  explicit Socket(int its_number) : number(its_number) {}
  ~Socket() {
    if (number >= 0) close(number);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  const int number;
};

/// Looks an address up as ZeroMQ does here: names are resolved to IPv4, and "[...]" is IPv6.
Found look_up(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const bool is_ipv6 = host.starts_with('[') && host.ends_with(']');
  if (is_ipv6) host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  addrinfo hints{};
  hints.ai_family = is_ipv6 ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  return {failed == 0 ? found : nullptr, &freeaddrinfo};
}

Result<void> unreachable(int reason) {
  if (reason == ECONNREFUSED) {
    return make_error(ErrorCode::kUnavailable, "refuses connections: nothing listens there");
  }
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("cannot be reached: {}", std::generic_category().message(reason)));
}

/// REQUIRES: connect() was called.
/// within  only for the error's message; the wait ends at `until`
Result<void> await(int socket, Duration within, TimePoint until) {
  pollfd waiting{.fd = socket, .events = POLLOUT, .revents = 0};
  while (true) {
    const Duration left = std::max(until - steady_now(), Duration::zero());
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = poll(&waiting, 1, static_cast<int>(milliseconds));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return unreachable(errno);
    if (ready > 0) break;
    return make_error(ErrorCode::kTimeout,
                      fmt::format("does not answer within {:g} s", seconds(within)));
  }
  int reason = 0;
  socklen_t size = sizeof reason;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &reason, &size) != 0) reason = errno;
  if (reason != 0) return unreachable(reason);
  return ok();
}

Result<void> try_one(const addrinfo& place, Duration within, TimePoint until) {
  const Socket one(socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (one.number < 0) return unreachable(errno);
  if (connect(one.number, place.ai_addr, place.ai_addrlen) == 0) return ok();
  // An interrupted connect() continues nevertheless.
  if (errno != EINPROGRESS && errno != EINTR) return unreachable(errno);
  return await(one.number, within, until);
}

}  // namespace

Result<void> try_to_reach(const std::string& address, Duration within) {
  const Found places = look_up(address);
  if (!places) return make_error(ErrorCode::kNotFound, "has a name that is not known here");
  const TimePoint until = steady_now() + within;
  Result<void> reached = unreachable(EHOSTUNREACH);
  for (const addrinfo* place = places.get(); place != nullptr; place = place->ai_next) {
    reached = try_one(*place, within, until);
    if (reached) break;
  }
  return reached;
}

Result<std::string> local_host_towards(const std::string& address) {
  const Found places = look_up(address);
  if (!places) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: has a name that is not known here", address));
  }
  // Nothing is sent: connecting a datagram socket is enough to give it a local address.
  const Socket one(socket(places->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const name = reinterpret_cast<sockaddr*>(&own);
  std::array<char, NI_MAXHOST> host{};
  const bool is_known =
      one.number >= 0 && connect(one.number, places->ai_addr, places->ai_addrlen) == 0 &&
      getsockname(one.number, name, &size) == 0 &&
      getnameinfo(name, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  if (!is_known) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: there is no route to it from here", address));
  }
  return own.ss_family == AF_INET6 ? fmt::format("[{}]", host.data()) : std::string(host.data());
}

}  // namespace taut
