#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/net/message.hpp"
#include "common/net/ucx/ucx_library.hpp"
#include "common/result.hpp"

namespace taut {

/// An address of a socket.
struct SocketAddress {
  sockaddr_storage place{};
  socklen_t size = sizeof(sockaddr_storage);
};

/// Addresses of "host:port", "[host]:port".
/// Errors    not_found: the host's name is not known; invalid: no port
[[nodiscard]] Result<SocketAddress> look_up_socket(const std::string& address, bool to_listen);
/// "host:port" of an address.
[[nodiscard]] std::string text_of(const SocketAddress& address);

/// Owns a UCP worker with its context and its listeners.
/// Thread    one for every call; callbacks run within progress(), and within calls that say so
class UcxWorker {
 public:
  /// Event handlers. They may send and receive, but not create or close a connection.
  struct Events {
    std::function<void(ucp_conn_request_h)> on_caller;       // answered by accept()
    std::function<void(ucp_ep_h, const char* why)> on_lost;  // must be closed
    /// One active message. is_large: its data are still at the sender, and `data` is their handle;
    /// UCS_INPROGRESS keeps it for receive() or drop(), UCS_OK discards it.
    std::function<ucs_status_t(std::span<const std::byte> header, void* data, std::size_t bytes,
                               bool is_large, ucp_ep_h from)>
        on_part;
  };
  /// Errors    unavailable: UCX is not installed, or offers no transport
  [[nodiscard]] static Result<std::unique_ptr<UcxWorker>> open(Events events);
  /// Closes what is open, within a second at most.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  /// Returns the address as bound.
  /// Errors    exists: the port is in use; invalid
  [[nodiscard]] Result<std::string> listen(const std::string& address);
  [[nodiscard]] Result<ucp_ep_h> dial(const SocketAddress& address);
  [[nodiscard]] Result<ucp_ep_h> accept(ucp_conn_request_h request);
  /// Closes at once: unsent data are dropped.
  void close(ucp_ep_h connection);

  /// Sends one active message, whose data must stay valid until the send completes.
  /// keeps     released when the send completes
  /// Returns false if the connection is no longer usable.
  [[nodiscard]] bool send(ucp_ep_h connection, std::vector<std::byte> header,
                          std::span<const std::byte> data, std::shared_ptr<const void> keeps,
                          bool is_large, bool names_sender);
  /// Fetches the data of a large message. `done` may be called within this call.
  void receive(void* data, std::span<std::byte> into, std::function<void(bool is_whole)> done);
  void drop(void* data) { library_.am_data_release(worker_, data); }

  /// Returns whether it did something.
  bool progress();
  /// Readable when progress() has something to do, once arm() has returned true.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool arm();

 private:
  struct Sent;
  struct Received;
  UcxWorker(const UcxLibrary& library, Events events)
      : library_(library), events_(std::move(events)) {}
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<ucp_ep_h> connect(ucp_ep_params_t& parameters);
  void collect_closed();

  const UcxLibrary& library_;
  const Events events_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<ucp_listener_h> listeners_;
  std::vector<ucp_ep_h> open_;
  std::vector<void*> closing_;  // requests
  int descriptor_ = -1;
};

}  // namespace taut
