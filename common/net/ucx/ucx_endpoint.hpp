#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/net/data_token.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/security.hpp"

namespace taut {

/// The prefix of the address of a shard that is reached through UCX.
inline constexpr std::string_view kUcxScheme = "ucx://";

/// An endpoint with its own thread, and a descriptor that another endpoint can wait for.
class WatchedEndpoint : public Endpoint {
 public:
  /// Readable while receive() has something to return. Thread: the endpoint's.
  [[nodiscard]] virtual int descriptor() = 0;
};

/// An endpoint over UCX's active messages. Its addresses are "host:port"; UCX chooses the transport
/// of each connection: shared memory, RDMA or TCP. Nothing is encrypted. With keys it requires a
/// token, in both directions; without keys it is meant for tests.
/// security, tokens  as for ZmqContext; they outlive it
/// Errors    unavailable: this build or this machine has no UCX; names the package
[[nodiscard]] Result<std::unique_ptr<WatchedEndpoint>> make_ucx_endpoint(
    const Security& security, const std::optional<TokenKey>& tokens, EndpointLimits limits);

/// Sets what a server needs to listen on its earlier port again, unless the user has set it: UCX
/// reads it only from the environment.
/// Thread    main, before any other thread starts
void prepare_to_listen_on_ucx();

/// A number for a UCX connection that no other connection of this process has: it differs from
/// ZeroMQ's numbers, and a stranger cannot guess it.
[[nodiscard]] PeerId new_ucx_number(bool is_dialed);
[[nodiscard]] bool is_ucx_number(PeerId peer);

}  // namespace taut
