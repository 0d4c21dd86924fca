#pragma once

#include <memory>
#include <vector>

#include "tests/bench/strangers/stranger.hpp"
#include "tests/unit/server/guarded_cluster.hpp"

namespace taut::strangers {

/// A port that processes listen at, with those that try it.
class Port {
 public:
  virtual ~Port() = default;
  [[nodiscard]] virtual std::vector<Stranger> strangers() = 0;
  /// Ends the handler that admits keys there, if it has one.
  virtual void end_admission() = 0;
  [[nodiscard]] virtual bool has_handler() const { return true; }
};

/// The rows that every port has: no key, another cluster's, an unknown and two revoked ones. What
/// they say is `friendly`, which the last row's key, a reader's, is granted.
[[nodiscard]] std::vector<Stranger> usual_strangers(test::GuardedCluster& cluster,
                                                    const Stranger& friendly);

/// The rows of a shard whose data plane is plain, and of the parts of checkpoints there.
[[nodiscard]] std::vector<Stranger> plain_rows(test::GuardedCluster& cluster);

/// A coordinator, and the data plane of a shard with the parts of checkpoints.
/// is_plain  the shard's plane is plain, and its peers prove themselves by secrets
[[nodiscard]] std::unique_ptr<Port> cluster_ports(test::GuardedCluster& cluster, bool is_plain);
/// A coordinator on standby for another one.
[[nodiscard]] std::unique_ptr<Port> standby_port(test::GuardedCluster& cluster);
/// A worker of a job whose workers sum among themselves (ALLREDUCE, GOSSIP).
[[nodiscard]] std::unique_ptr<Port> rank_port(test::GuardedCluster& cluster);
/// A follower that passes models on to others.
[[nodiscard]] std::unique_ptr<Port> relay_port(test::GuardedCluster& cluster);

/// A shard of a separate cluster with a plain data plane, reached through UCX; nullptr, and a line
/// that says why: there is no UCX here.
[[nodiscard]] std::unique_ptr<Port> ucx_port();

/// Tries what a daemon serves over HTTP: requests with tokens and links. Prints its rows. There is
/// no handler that could end: each request is judged separately.
/// Returns whether no stranger got anything through.
[[nodiscard]] bool try_http(int tries);

/// Prints one row. Returns whether it is as it must be.
/// dead  -1: this port has no handler
bool print_row(const std::string& port, const std::string& who, const std::string& what, int alive,
               int dead, int expected);

}  // namespace taut::strangers
