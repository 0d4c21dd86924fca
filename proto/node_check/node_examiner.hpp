#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/control.pb.h"
#include "proto/node_check.pb.h"

namespace taut {

/// What a process knows about itself when it is examined.
struct NodeSelf {
  std::string coordinator;              // the addresses that it joins at
  std::vector<std::string> own_shards;  // servers: their addresses, which are not reached
  bool is_server = false;
  bool insecure = false;
  std::string keys_folder;  // empty: the user's own
  /// Adds what it knows about its memory. Thread: the examiner's.
  std::function<void(pb::NodeFacts&)> add_memory;
};

/// Does what a NodeCheck orders on its own thread, so that heartbeats continue, and has the facts
/// sent with them. A check takes half a minute at most.
/// Thread    its owner's
class NodeExaminer {
 public:
  /// context  outlives it
  NodeExaminer(ZmqContext& context, NodeSelf self);
  ~NodeExaminer();
  NodeExaminer(const NodeExaminer&) = delete;
  NodeExaminer& operator=(const NodeExaminer&) = delete;

  /// Begins a check; one that is running is given up.
  /// secret  for hellos to shards; nullopt if the data plane is not plain
  void begin(const pb::NodeCheck& check, const std::optional<DataToken>& secret);
  /// Adds what the last check has found, if it has ended.
  void add_facts(pb::Heartbeat& heartbeat) const;

 private:
  void run();
  [[nodiscard]] pb::NodeFacts examine(const pb::NodeCheck& check,
                                      const std::optional<DataToken>& secret);
  void read_clock(pb::NodeFacts& facts);
  void look_at_keys(pb::KeyFacts& facts) const;

  ZmqContext& context_;
  const NodeSelf self_;
  mutable std::mutex mutex_;  // guards ordered_, facts_, secret_ and stops_
  std::condition_variable changed_;
  std::optional<pb::NodeCheck> ordered_;
  std::optional<DataToken> secret_;  // for it
  std::optional<pb::NodeFacts> facts_;
  bool stops_ = false;
  std::atomic<bool> given_up_ = false;
  std::thread thread_;  // started by the first check
};

}  // namespace taut
