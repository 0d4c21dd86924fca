#pragma once

#include <memory>
#include <string>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "proto/control.pb.h"
#include "worker/collective/rank_board.hpp"

namespace taut::collective {

/// Where a rank listens. With keys it has its own key pair for as long as it listens: the others
/// know the public key from the coordinator, and only they are admitted. Of each it takes what a
/// rank has under way at most (GroupOptions::kWindow); of one that sends more, the connection is
/// closed.
struct RankEndpoint {
  std::unique_ptr<ZmqContext> context;  // ends after the endpoint
  std::unique_ptr<Endpoint> endpoint;
  pb::RankPlace place;
};

/// Listens there; port 0: at any port of that interface.
/// at         "host:port"
/// with_keys  otherwise any process that reaches the port may send, and reads every byte
/// board      of those that get in; outlives the endpoint
/// Errors     as Endpoint::bind
[[nodiscard]] Result<RankEndpoint> listen_as_rank(const std::string& at, bool with_keys,
                                                  const RankBoard& board);

}  // namespace taut::collective
