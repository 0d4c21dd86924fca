#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/node_check.pb.h"

namespace taut {

/// The member of a job that says hello; job 0: no member.
struct HelloSender {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
};

/// Connects to shards as a worker does: over TCP, with this process's key, by a hello; then sends
/// hellos with padding, and measures the time until they are answered.
/// secret    to present to them; nullopt if the data plane is not plain
/// bytes     to send to each shard; it ends early after two seconds
/// until     shards that are not reached by then are given up
/// given_up  set by another thread: ends soon
/// sender    the owner of the secret
/// Thread    one
[[nodiscard]] std::vector<pb::LinkFacts> examine_links(ZmqContext& context,
                                                       const std::optional<DataToken>& secret,
                                                       const std::vector<std::string>& shards,
                                                       std::uint64_t bytes, TimePoint until,
                                                       const std::atomic<bool>& given_up,
                                                       const HelloSender& sender = {});

}  // namespace taut
