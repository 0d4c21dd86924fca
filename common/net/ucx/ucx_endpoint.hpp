#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/net/data_token.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/security.hpp"

namespace taut {

/// The start of the address of a shard that is reached through UCX.
inline constexpr std::string_view kUcxScheme = "ucx://";

/// An endpoint with its own thread, that another one can wait for too.
class WatchedEndpoint : public Endpoint {
 public:
  /// Readable while receive() has something. Thread: the endpoint's.
  [[nodiscard]] virtual int descriptor() = 0;
};

/// An endpoint over UCX's active messages. Its addresses are "host:port"; what carries them, UCX
/// chooses for each connection: shared memory, RDMA or TCP. Nothing is encrypted. With keys it
/// takes a token, in both directions; without them, it is one for tests.
/// security, tokens  as of ZmqContext; they outlive it
/// Errors    unavailable: this build or this machine is without UCX, with the package's name
[[nodiscard]] Result<std::unique_ptr<WatchedEndpoint>> make_ucx_endpoint(
    const Security& security, const std::optional<TokenKey>& tokens, EndpointLimits limits);

/// Sets what a server needs to listen on its earlier port again, unless the user has: UCX reads it
/// from the environment alone.
/// Thread    main, before any other one starts
void prepare_to_listen_on_ucx();

/// A number of a connection over UCX, which no other connection of this process has: unlike
/// ZeroMQ's, and one that a stranger does not guess.
[[nodiscard]] PeerId new_ucx_number(bool is_dialed);
[[nodiscard]] bool is_ucx_number(PeerId peer);

}  // namespace taut
