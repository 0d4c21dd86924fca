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
  std::string coordinator;  // addresses of all possible coordinators, separated by commas
  JobId job;
  std::string name;      // of this process, for people; a bounded follower's is that of its key
  bool bounded = false;  // training waits for it, as the job's `followers` says
  /// "host:port" at which it passes models on to followers; it may then read from one. Port 0: any;
  /// no host: the address with which it reaches the coordinator. Empty: it reads from the servers.
  std::string relay;
  Security security = Security::insecure();
};

/// Reads the parameters of a job while it trains, each time all of one version. Training does not
/// wait for it, unless it is bounded.
/// Thread    any; pull() by one at a time
class Follower {
 public:
  /// Errors    invalid, exists: it cannot listen at `relay`, or its key does not permit it
  [[nodiscard]] static Result<std::unique_ptr<Follower>> open(const FollowerOptions& options);
  /// Training no longer waits for it.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Returns the newest model that fulfills a wish, as soon as one exists.
  /// wait     the longest that this may take, over all calls with this wish
  /// at_most  after this long it returns nullptr; it may be called again with the same wish
  /// Errors   timeout: names what is awaited; closed: the job is over, and its last version was
  ///          returned; stale: it was bounded, and was cut; unavailable, mismatch
  [[nodiscard]] Result<std::shared_ptr<const Model>> pull(const Wish& wish, Duration wait,
                                                          Duration at_most = Duration::max());

  /// The address at which it passes models on; empty if it does not.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] FollowerProtocol::Traffic traffic() const;
  /// For tests: ZmqContext::end_admission(), for the followers that it passes models on to.
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
  std::optional<TimePoint> heard_;  // when the coordinator's last message arrived
  TimePoint asked_;                 // since when this coordinator is awaited
  bool was_answered_ = false;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  std::optional<PeerId> source_;
  std::optional<DataToken> secret_;  // for shards, if the data plane is plain
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
