#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/net/security.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/session/coordinator_addresses.hpp"
#include "worker/follower/follower_protocol.hpp"

namespace taut {

struct FollowerOptions {
  std::string coordinator;  // addresses of all that could coordinate, separated by commas
  JobId job;
  std::string name;      // of this process, for people; a bounded one's is that of its key
  bool bounded = false;  // training waits for it, as the job's `followers` says
  /// "host:port" at which it passes models on to others, and takes them from others; port 0: any,
  /// no host: the address with which it reaches the coordinator. Empty: it reads from the servers.
  std::string relay;
  Security security = Security::insecure();
};

/// Reads the parameters of a job while it trains, each time as they are of one version. Training
/// does not wait for it, unless it is bounded.
/// Thread    any; pull() by one at a time
class Follower {
 public:
  /// Errors    invalid, exists: `relay` cannot be listened at, or its key does not let it
  [[nodiscard]] static Result<std::unique_ptr<Follower>> open(const FollowerOptions& options);
  /// Training waits for it no more.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// The newest model that fulfils a wish, as soon as there is one.
  /// wait     as long as that may take
  /// at_most  of this call, which then returns nothing and may be repeated with the same wish
  /// Errors   timeout: names what is waited for; closed: the job is over, and its last version was
  ///          given; stale: it was bounded, and was cut; unavailable, mismatch
  [[nodiscard]] Result<std::shared_ptr<const Model>> pull(const Wish& wish, Duration wait,
                                                          Duration at_most = Duration::max());

  /// The address at which it passes models on; empty: it does not.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] FollowerProtocol::Traffic traffic() const;
  /// For tests: as that of ZmqContext, of those that it passes models on to.
  void end_admission() { context_->end_admission(); }

 private:
  struct Started {
    std::unique_ptr<ZmqContext> context;
    std::unique_ptr<Endpoint> endpoint;
    PeerId coordinator;
    std::string address;
  };
  Follower(const FollowerOptions& options, Started started);
  void run();
  void take(const Incoming& incoming);
  void take_control(const Incoming& incoming);
  void find_coordinator();
  void act();
  void connect(const FollowerProtocol::Connection& connection);
  void send(FollowerProtocol::Outgoing& outgoing);

  const FollowerOptions options_;
  std::unique_ptr<ZmqContext> context_;
  std::unique_ptr<Endpoint> endpoint_;  // the thread's
  CoordinatorAddresses coordinators_;
  PeerId coordinator_;
  std::optional<TimePoint> heard_;  // of the coordinator
  TimePoint asked_;                 // since when this one is waited for
  bool was_answered_ = false;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  std::optional<PeerId> source_;
  std::optional<DataToken> secret_;  // for shards, where the data plane is plain
  const std::string address_;
  BufferPool pool_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  FollowerProtocol protocol_;
  std::optional<Error> failure_;
  struct Waiting {
    Wish wish;
    TimePoint begin;
  };
  std::optional<Waiting> waiting_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace taut
