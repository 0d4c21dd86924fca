#include "cli/node/node_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <system_error>

#include "common/files/descriptor.hpp"

namespace taut::cli {
namespace {

// In the block that is reserved for documentation (RFC 5737): used nowhere, so that the route to it
// is the one to all distant addresses.
constexpr const char* kFarAway = "192.0.2.1";
constexpr const char* kLoopback = "127.0.0.1";

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return nullptr;
  return Addresses(found);
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host.data();
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1";
}

/// The first address of an interface that is up and not loopback; IPv4 before IPv6. Empty: none.
std::string first_interface() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      const bool is_up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (!is_up || one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      std::string host =
          numeric(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      // A link-local address would need the interface's name with it.
      if (!host.empty() && !host.starts_with("fe80:")) return host;
    }
  }
  return {};
}

}  // namespace

Result<std::string> numeric_address(const std::string& host) {
  const Addresses found = resolve(host, 0);
  std::string first;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const std::string address = numeric(one->ai_addr, one->ai_addrlen);
    if (address.empty()) continue;
    if (!is_loopback(address)) return address;
    if (first.empty()) first = address;
  }
  if (!first.empty()) return first;
  return make_error(ErrorCode::kNotFound, fmt::format("no host is known as \"{}\"", host));
}

Result<std::string> address_for_others(const std::string& host) {
  TAUT_TRY(std::string address, numeric_address(host));
  const bool is_name = resolve(host, AI_NUMERICHOST) == nullptr;
  return is_name && is_loopback(address) ? own_address() : address;
}

Result<std::string> own_address_towards(const std::string& host) {
  const Addresses target = resolve(host, AI_NUMERICHOST);
  if (!target) return invalid(fmt::format("\"{}\" is not a numeric address", host));
  const Descriptor one(socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  // Connecting a datagram socket chooses the route, and sends nothing.
  if (one.get() < 0 || connect(one.get(), target->ai_addr, target->ai_addrlen) != 0 ||
      getsockname(one.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("there is no route to {}: {}", host,
                                                           std::generic_category().message(errno)));
  }
  return numeric(reinterpret_cast<sockaddr*>(&own), size);
}

std::string own_address() {
  if (const auto address = own_address_towards(kFarAway); address && !is_loopback(address.value()))
    return address.value();
  const std::string address = first_interface();
  return address.empty() ? kLoopback : address;
}

}  // namespace taut::cli
