#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

#include "cli/doctor/machine.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// A socket that is closed with its owner.
struct Socket {
  explicit Socket(int descriptor_) : descriptor(descriptor_) {}
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor;
};

struct HostAndPort {
  std::string host;  // empty: every interface
  std::string port;
};

HostAndPort split(const std::string& address) {
  const auto colon = address.rfind(':');
  HostAndPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.starts_with('[') && parts.host.ends_with(']')) {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  if (parts.host == "*") parts.host.clear();
  return parts;
}

/// Tries to listen, as a daemon would, and stops at once.
PortFacts::State try_to_listen(const addrinfo& at) {
  const Socket one(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (one.descriptor < 0) return PortFacts::State::kElsewhere;
  // Connections of a daemon that has just ended do not count.
  const int on = 1;
  setsockopt(one.descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(one.descriptor, at.ai_addr, at.ai_addrlen) == 0 && listen(one.descriptor, 1) == 0) {
    return PortFacts::State::kFree;
  }
  if (errno == EADDRINUSE) return PortFacts::State::kHeld;
  if (errno == EACCES) return PortFacts::State::kForbidden;
  return PortFacts::State::kElsewhere;
}

/// The inodes of the sockets that listen on a port, on any interface.
/// Source    proc(5), /proc/net/tcp: "sl local_address rem_address st ... inode", 0A is LISTEN
std::set<std::string> listening_inodes(unsigned port) {
  std::set<std::string> inodes;
  const std::string ending = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >>
          timeout >> inode;
      if (state == "0A" && local.ends_with(ending)) inodes.insert(inode);
    }
  }
  return inodes;
}

bool has_one_of(const fs::path& descriptors, const std::set<std::string>& inodes) {
  std::error_code failed;
  for (fs::directory_iterator entry(descriptors, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry->path(), error).string();
    constexpr std::string_view kBefore = "socket:[";
    if (error || !target.starts_with(kBefore)) continue;
    if (inodes.contains(target.substr(kBefore.size(), target.size() - kBefore.size() - 1))) {
      return true;
    }
  }
  return false;
}

/// The name of a process's program: /proc/PID/comm is cut to 15 characters.
std::string program_of(const fs::path& process) {
  std::error_code unreadable;
  const fs::path program = fs::read_symlink(process / "exe", unreadable);
  if (!unreadable) return program.filename().string();
  std::ifstream in(process / "comm");
  std::string name;
  std::getline(in, name);
  return name;
}

std::string holder_of(unsigned port) {
  const std::set<std::string> inodes = listening_inodes(port);
  if (inodes.empty()) return {};
  std::error_code failed;
  for (fs::directory_iterator entry("/proc", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string number = entry->path().filename().string();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!has_one_of(entry->path() / "fd", inodes)) continue;
    return fmt::format("{} (process {})", program_of(entry->path()), number);
  }
  return {};
}

}  // namespace

PortFacts system_port(const std::string& address) {
  const auto [host, port] = split(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found) != 0) {
    return {.state = PortFacts::State::kUnknown};
  }
  PortFacts facts{.state = try_to_listen(*found)};
  freeaddrinfo(found);
  if (facts.state == PortFacts::State::kHeld) {
    facts.holder = holder_of(static_cast<unsigned>(std::strtoul(port.c_str(), nullptr, 10)));
  }
  return facts;
}

}  // namespace taut::cli
