#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#include <zmq.hpp>

#include "common/time.hpp"

namespace taut {

/// Watches the connections to this process's listening sockets: reports which have ended and closes
/// those that exceed a limit. ZeroMQ limits how many messages of a connection wait, but
/// not what has arrived of a message that never ends; it never drops a peer; and its thread uses a
/// whole processor while no file descriptor is left to accept with. Three limits:
///
///   a connection       bytes taken from it since its last message was received
///   all connections that have sent no message  bytes taken from them together, kMaxUnspokenBytes
///   all connections    three quarters of the descriptors that this process may have; which are
///                      closed beyond that: connections_to_close()
///
/// The bytes taken follow from TCP's own count and what still waits in the kernel, so nothing is
/// counted for each message. They are checked every 20 ms, or less often so that checks use at
/// most a fifth of a processor; for five seconds after a connection was accepted, every 5 ms if a
/// check is that quick. A peer can exceed a limit by what the network brings between two checks.
/// Thread    any; for add() and remove(), the socket's
class ConnectionWatch {
 public:
  static constexpr std::uint64_t kMaxUnspokenBytes = 16ULL << 20U;
  static constexpr std::size_t kMaxEnded = 4096;

  /// context  outlives this
  explicit ConnectionWatch(zmq::context_t& context) : context_(context) {}
  /// Ends and joins its thread. No socket is watched any longer.
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  /// Watches the connections of a socket that has not bound yet.
  /// unreceived  bytes that may be taken from a connection while no message of it is received
  /// Throws      std::runtime_error when the process has no file descriptors left, zmq::error_t
  void add(zmq::socket_t& socket, std::uint64_t unreceived);
  /// Stops watching a socket; must be called before it is closed.
  void remove(zmq::socket_t& socket);

  /// A message of the connection was received.
  /// descriptor  ZeroMQ's, of the connection; -1: unknown
  /// key         a digest of the key that its handshake proved
  void note_received(int descriptor, std::size_t key);
  /// Closes a connection because of what it has sent.
  void close_connection(int descriptor);
  /// The socket's connections that have ended since the last call, by their descriptors, which
  /// others may have by now; at most the newest kMaxEnded. Those that are known to have sent no
  /// message are left out.
  [[nodiscard]] std::vector<int> take_ended(const zmq::socket_t& socket);

 private:
  struct Listener {
    const void* socket = nullptr;
    zmq::socket_t events;  // the thread's
    std::uint64_t unreceived = 0;
    std::atomic<bool> is_removed = false;
    std::deque<int> ended;  // guarded by mutex_
  };
  struct Connection {
    const Listener* listener = nullptr;
    std::uint64_t cookie = 0;  // the kernel's unique number of the connection
    std::uint64_t taken = 0;   // bytes, as of the last received message
    bool has_spoken = false;   // a message was received
    TimePoint last_heard;      // when the last message was received, or it was accepted
    std::size_t key = 0;       // of that message
    bool is_closed = false;    // by us; ZeroMQ has not noticed yet
  };

  void begin();
  void wake() const;
  void run();
  [[nodiscard]] Duration pause_after(Duration took) const;
  [[nodiscard]] std::vector<Listener*> take_listeners();
  void wait(const std::vector<Listener*>& listeners, Duration longest) const;
  void note_events(Listener& listener);
  void note_ended(Listener& listener, int descriptor);
  [[nodiscard]] bool has_spoken(int descriptor, const Connection& connection);
  void note_messages();
  [[nodiscard]] bool has_received(int descriptor);
  void check_bytes();
  void check_descriptors();
  void close(int descriptor, Connection& connection, const std::string& reason);

  zmq::context_t& context_;
  std::mutex mutex_;  // guards the next three, and Listener::ended
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::unordered_map<int, std::size_t> received_;  // connections with a message, and their keys
  std::vector<int> refused_;                       // connections to be closed
  int wake_ = -1;                                  // an eventfd
  int spare_ = -1;  // reserved for a copy of a descriptor that is being closed
  std::atomic<bool> stopping_ = false;
  std::unordered_map<int, Connection> connections_;      // by descriptor; the thread's, as the next
  std::unordered_map<int, std::size_t> early_messages_;  // of connections that are not known yet
  TimePoint newest_accepted_;                            // of all connections
  std::uint64_t closed_ = 0;
  std::thread thread_;
};

}  // namespace taut
