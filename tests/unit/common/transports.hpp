#pragma once

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/net/memory_network.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"

/// All transports: what holds in memory must hold over ZeroMQ and over UCX.
namespace taut::test {

inline constexpr Duration kWait{5'000'000};

inline Message message(std::initializer_list<std::string> parts) {
  Message result;
  for (const std::string& part : parts) result.frames.push_back(Frame::copy_of(part));
  return result;
}

/// A transport under test.
struct Transport {
  std::string name;
  std::function<std::unique_ptr<Endpoint>(EndpointLimits)> make;
  std::shared_ptr<void> alive;
};

inline Transport zmq_transport() {
  auto context = std::make_shared<ZmqContext>(Security::insecure());
  return {"ZeroMQ", [context](EndpointLimits limits) { return context->make_endpoint(limits); },
          context};
}

inline Transport memory_transport() {
  auto network = std::make_shared<MemoryNetwork>(1);
  return {"memory", [network](EndpointLimits limits) { return network->make_endpoint(limits); },
          network};
}

/// chosen  UCX's transports, as a user's environment names them
inline Transport ucx_transport(const std::string& chosen) {
  struct Settings {
    const Security security = Security::insecure();
    const std::optional<TokenKey> tokens;
  };
  auto settings = std::make_shared<Settings>();
  const auto make = [settings, chosen](EndpointLimits limits) -> std::unique_ptr<Endpoint> {
    setenv("UCX_TLS", chosen.c_str(), 1);
    auto endpoint = make_ucx_endpoint(settings->security, settings->tokens, limits);
    unsetenv("UCX_TLS");
    REQUIRE(endpoint);
    return std::move(endpoint.value());
  };
  return {"UCX over " + chosen, make, settings};
}

inline bool has_ucx() {
  const Security security = Security::insecure();
  const std::optional<TokenKey> tokens;
  return make_ucx_endpoint(security, tokens, {}).has_value();
}

/// Those between processes.
inline std::vector<Transport> real_transports() {
  std::vector<Transport> all{zmq_transport()};
  if (has_ucx()) {
    all.push_back(ucx_transport("tcp"));
    all.push_back(ucx_transport("tcp,posix,cma"));
  }
  return all;
}

inline std::vector<Transport> transports() {
  std::vector<Transport> all = real_transports();
  all.push_back(memory_transport());
  return all;
}

struct Pair {
  std::unique_ptr<Endpoint> server;
  std::unique_ptr<Endpoint> client;
  PeerId to_server;
  std::string address;
};

inline Pair connected(const Transport& transport, EndpointLimits limits = {}) {
  Pair pair{transport.make(limits), transport.make(limits), {}, {}};
  pair.address = pair.server->bind("127.0.0.1:0").value();
  pair.to_server = pair.client->connect(pair.address).value();
  return pair;
}

}  // namespace taut::test
