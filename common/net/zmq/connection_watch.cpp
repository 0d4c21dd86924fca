#include "common/net/zmq/connection_watch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "common/log.hpp"
#include "common/net/zmq/connection_eviction.hpp"
#include "common/net/zmq/handshake_watch.hpp"

namespace taut {
namespace {

constexpr Duration kBetweenChecks{20'000};
// While handshakes may be under way: any process may send there, as fast as the network allows.
constexpr Duration kBetweenLooksAtStrangers{5'000};
// ZeroMQ closes a connection whose handshake takes longer.
constexpr Duration kHandshake{5'000'000};
// A check that takes long is made less often; strangers cannot make it more frequent then.
constexpr int kPauseShare = 4;
constexpr int kStrangersPauseShare = 16;
constexpr Duration kMaxWait{1'000'000};
// Connections that have sent no message are closed down to this, once they exceed their limit: the
// remaining ones may send until the next check.
constexpr std::uint64_t kLeftUnspokenBytes = ConnectionWatch::kMaxUnspokenBytes / 4;
// Enough for a handshake: fewer bytes are not checked further.
constexpr std::uint64_t kFewBytes = 64ULL << 10U;

/// A number that no other connection of this machine has; nullopt if the descriptor has none.
std::optional<std::uint64_t> cookie_of(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  if (getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return std::nullopt;
  return cookie;
}

/// Bytes that have arrived from a peer, read or not; nullopt if the descriptor is no connection's.
std::optional<std::uint64_t> arrived(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr std::size_t kEnd = offsetof(tcp_info, tcpi_bytes_received) + sizeof(std::uint64_t);
  return size < kEnd ? std::optional<std::uint64_t>() : info.tcpi_bytes_received;
}

/// How many of these bytes are still in the kernel.
std::uint64_t unread(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

/// Ends a connection and discards what has arrived and not been read: up to some MiB, which would
/// still be read after a shutdown.
void disconnect(int descriptor) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  if (connect(descriptor, &nobody, sizeof nobody) != 0) shutdown(descriptor, SHUT_RDWR);
}

std::uint64_t less(std::uint64_t from, std::uint64_t what) {
  return from - std::min(from, what);
}

/// How many descriptors connections may use.
std::size_t max_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 768;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1U << 24U)) / 4 * 3;
}

}  // namespace

ConnectionWatch::~ConnectionWatch() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  if (wake_ >= 0) ::close(wake_);
  if (spare_ >= 0) ::close(spare_);
}

void ConnectionWatch::wake() const {
  const std::uint64_t one = 1;
  if (wake_ < 0) return;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

/// REQUIRES: the lock.
void ConnectionWatch::begin() {
  if (thread_.joinable()) return;
  if (wake_ < 0) wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (spare_ < 0 && wake_ >= 0) spare_ = fcntl(wake_, F_DUPFD_CLOEXEC, 0);
  if (spare_ < 0) throw std::runtime_error("eventfd: no file descriptors left");
  thread_ = std::thread([this] { run(); });
}

void ConnectionWatch::add(zmq::socket_t& socket, std::uint64_t unreceived) {
  static std::atomic<std::uint64_t> count = 0;
  const std::string place = fmt::format("inproc://connections-{}", count++);
  constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(socket.handle(), place.c_str(), kEvents) != 0) throw zmq::error_t();
  auto listener = std::make_unique<Listener>();
  listener->socket = socket.handle();
  listener->unreceived = unreceived;
  listener->events = zmq::socket_t(context_, zmq::socket_type::pair);
  listener->events.set(zmq::sockopt::linger, 0);
  // With a limit, ZeroMQ's own thread would wait for room in the queue.
  listener->events.set(zmq::sockopt::rcvhwm, 0);
  listener->events.connect(place);
  const std::scoped_lock lock(mutex_);
  begin();
  listeners_.push_back(std::move(listener));
  wake();
}

void ConnectionWatch::remove(zmq::socket_t& socket) {
  const std::scoped_lock lock(mutex_);
  for (const auto& listener : listeners_) {
    if (listener->socket != socket.handle() || listener->is_removed) continue;
    zmq_socket_monitor(socket.handle(), nullptr, 0);
    listener->is_removed = true;  // the thread closes what it may be waiting for
    wake();
  }
}

void ConnectionWatch::note_received(int descriptor, std::size_t key) {
  if (descriptor < 0) return;
  const std::scoped_lock lock(mutex_);
  received_[descriptor] = key;
}

void ConnectionWatch::close_connection(int descriptor) {
  if (descriptor < 0) return;
  const std::scoped_lock lock(mutex_);
  refused_.push_back(descriptor);
}

std::vector<int> ConnectionWatch::take_ended(const zmq::socket_t& socket) {
  const std::scoped_lock lock(mutex_);
  for (const auto& listener : listeners_) {
    if (listener->socket != socket.handle() || listener->is_removed) continue;
    const std::deque<int> ended = std::exchange(listener->ended, {});
    return {ended.begin(), ended.end()};
  }
  return {};
}

void ConnectionWatch::note_ended(Listener& listener, int descriptor) {
  const std::scoped_lock lock(mutex_);
  listener.ended.push_back(descriptor);
  if (listener.ended.size() > kMaxEnded) listener.ended.pop_front();
}

bool ConnectionWatch::has_spoken(int descriptor, const Connection& connection) {
  return connection.has_spoken || early_messages_.contains(descriptor) || has_received(descriptor);
}

void ConnectionWatch::run() {
  TimePoint last_check = steady_now();
  Duration took{0};
  while (!stopping_) {
    const std::vector<Listener*> listeners = take_listeners();
    wait(listeners,
         connections_.empty() ? kMaxWait : last_check + pause_after(took) - steady_now());
    for (Listener* listener : listeners) note_events(*listener);
    const TimePoint begin = steady_now();
    // A connection that was just accepted makes the next check earlier.
    if (begin < last_check + pause_after(took)) continue;
    note_messages();
    check_bytes();
    check_descriptors();
    last_check = steady_now();
    took = last_check - begin;
  }
}

/// How long to wait after a check that took `took`.
Duration ConnectionWatch::pause_after(Duration took) const {
  const Duration usual = std::max<Duration>(kBetweenChecks, kPauseShare * took);
  if (steady_now() >= newest_accepted_ + kHandshake) return usual;
  return std::min(usual, std::max<Duration>(kBetweenLooksAtStrangers, kStrangersPauseShare * took));
}

/// The sockets that are watched; forgets those that were removed.
std::vector<ConnectionWatch::Listener*> ConnectionWatch::take_listeners() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(listeners_, [this](const auto& listener) {
    if (!listener->is_removed) return false;
    std::erase_if(connections_,
                  [&](const auto& one) { return one.second.listener == listener.get(); });
    return true;
  });
  std::vector<Listener*> listeners;
  listeners.reserve(listeners_.size());
  for (const auto& listener : listeners_) listeners.push_back(listener.get());
  return listeners;
}

void ConnectionWatch::wait(const std::vector<Listener*>& listeners, Duration longest) const {
  std::vector<zmq::pollitem_t> items;
  items.push_back({nullptr, wake_, ZMQ_POLLIN, 0});
  for (Listener* listener : listeners) {
    items.push_back({listener->events.handle(), 0, ZMQ_POLLIN, 0});
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  zmq_poll(items.data(), static_cast<int>(items.size()), std::max<long>(ms, 0));
  std::uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t drained = read(wake_, &wakes, sizeof wakes);
}

/// A connection's descriptor is closed, and may be reused, only after the event of its end is sent:
/// so once all events are read, each remaining connection had its cookie. Another socket may
/// meanwhile have accepted one with the same descriptor, and its event may be read first.
void ConnectionWatch::note_events(Listener& listener) {
  try {
    while (const auto event = next_event(listener.events)) {
      const int descriptor = static_cast<int>(event->value);
      const auto known = connections_.find(descriptor);
      if (event->number == ZMQ_EVENT_ACCEPTED) {
        const auto cookie = cookie_of(descriptor);
        if (!cookie || (known != connections_.end() && known->second.cookie == *cookie)) continue;
        newest_accepted_ = steady_now();
        connections_[descriptor] = {
            .listener = &listener, .cookie = *cookie, .last_heard = newest_accepted_};
      } else if (known == connections_.end()) {
        // It ended before its accept event was handled: what it has sent is unknown.
        note_ended(listener, descriptor);
      } else if (known->second.listener == &listener) {
        if (has_spoken(descriptor, known->second)) note_ended(listener, descriptor);
        connections_.erase(known);
      }
    }
  } catch (const zmq::error_t& failure) {
    log::warn("the events of connections cannot be read: {}", failure.what());
  }
}

void ConnectionWatch::note_messages() {
  std::unordered_map<int, std::size_t> received;
  std::vector<int> refused;
  {
    const std::scoped_lock lock(mutex_);
    received.swap(received_);
    refused.swap(refused_);
  }
  // A message may be received before the accept event of its connection is read: it is then
  // considered once more in the next check.
  std::unordered_map<int, std::size_t> early;
  const auto is_known = [&](const auto& one) { return connections_.contains(one.first); };
  std::ranges::copy_if(received, std::inserter(early, early.end()), std::not_fn(is_known));
  received.merge(early_messages_);
  early_messages_ = std::move(early);
  for (const auto& [descriptor, key] : received) {
    const auto found = connections_.find(descriptor);
    if (found == connections_.end()) continue;
    found->second.has_spoken = true;
    found->second.last_heard = steady_now();
    found->second.key = key;
    // Unread bytes are counted first: bytes that arrive in between count as taken, so that the
    // connection seems to hold less than it does, not more.
    const std::uint64_t waiting = unread(descriptor);
    found->second.taken = less(arrived(descriptor).value_or(0), waiting);
  }
  for (const int descriptor : refused) {
    const auto found = connections_.find(descriptor);
    if (found != connections_.end()) close(descriptor, found->second, "a message is too large");
  }
}

/// Whether a message was received since note_messages(), on a busy machine maybe long ago.
bool ConnectionWatch::has_received(int descriptor) {
  const std::scoped_lock lock(mutex_);
  return received_.contains(descriptor);
}

void ConnectionWatch::check_bytes() {
  std::uint64_t unspoken = 0;
  std::vector<std::pair<std::uint64_t, int>> silent;
  for (auto& [descriptor, one] : connections_) {
    const auto bytes = one.is_closed ? std::nullopt : arrived(descriptor);
    if (!bytes || less(*bytes, one.taken) <= kFewBytes) continue;
    const std::uint64_t held = less(*bytes, one.taken + unread(descriptor));
    if (held > one.listener->unreceived) {
      if (has_received(descriptor)) continue;
      close(descriptor, one, fmt::format("{} bytes of an incomplete message", held));
    } else if (!one.has_spoken) {
      unspoken += held;
      silent.emplace_back(held, descriptor);
    }
  }
  if (unspoken <= kMaxUnspokenBytes) return;
  std::ranges::sort(silent, std::greater<>());
  for (const auto& [held, descriptor] : silent) {
    if (unspoken <= kLeftUnspokenBytes) break;
    unspoken -= held;
    close(descriptor, connections_.at(descriptor),
          fmt::format("{} bytes of an incomplete message, and it has sent no whole one", held));
  }
}

void ConnectionWatch::check_descriptors() {
  const std::size_t limit = max_connections();
  if (connections_.size() <= limit) return;
  std::vector<OpenConnection> open;
  for (const auto& [descriptor, one] : connections_) {
    if (!one.is_closed) open.push_back({descriptor, one.has_spoken, one.last_heard, one.key});
  }
  const std::size_t count = open.size();
  for (const int descriptor : connections_to_close(std::move(open), limit)) {
    close(descriptor, connections_.at(descriptor),
          fmt::format("{} connections are open, and this process may have {}", count, limit));
  }
}

/// The descriptor may be another file's by now: a copy is checked, and the copy's connection ended.
void ConnectionWatch::close(int descriptor, Connection& connection, const std::string& reason) {
  connection.is_closed = true;
  if (dup3(descriptor, spare_, O_CLOEXEC) < 0) return;
  if (cookie_of(spare_) == connection.cookie) {
    disconnect(spare_);
    // The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
    if (std::has_single_bit(++closed_)) {
      log::warn("closed a connection ({} so far): {}", closed_, reason);
    }
  }
  dup3(wake_, spare_, O_CLOEXEC);
}

}  // namespace taut
