#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"

namespace taut {

/// What the in-memory network does to each message, drawn for each from the network's seed.
struct NetworkFaults {
  double drop = 0;       // probability
  double duplicate = 0;  // probability of a second copy with its own delay
  Duration delay_min{50};
  Duration delay_max{50};
  bool reorder = false;  // a shorter delay may overtake; otherwise a connection keeps its order
};

/// The in-memory twin of ZmqContext: endpoints that exchange messages in virtual time, in one
/// thread, deterministically for a seed and the calls. Time passes when step() or a waiting
/// receive() advances it.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(std::uint64_t seed, NetworkFaults faults = {});
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(EndpointLimits limits = {});

  [[nodiscard]] TimePoint now() const;
  /// Advances time to the next delivery at or before `until`, delivers it and returns
  /// true; or advances time to `until` and returns false.
  bool step(TimePoint until);
  [[nodiscard]] std::uint64_t delivered() const;

  void set_faults(NetworkFaults faults);
  /// Drops everything from endpoints bound to or connecting from `a` towards `b` (names as given to
  /// name()), until healed. One way; partition twice for both.
  void partition(const std::string& a, const std::string& b);
  void heal();
  /// Names an endpoint for partition(); a bound endpoint also answers to its address.
  void name(Endpoint& endpoint, const std::string& name);
  /// Closes every connection of an endpoint; messages in flight are lost, and connecting peers
  /// count as new peers from their next message on.
  void break_connections(Endpoint& endpoint);

 private:
  friend class MemoryEndpoint;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace taut
