#pragma once

#include <memory>
#include <string>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "proto/control.pb.h"
#include "worker/collective/rank_board.hpp"

namespace taut::collective {

/// Where a rank listens. With keys it has its own key pair for as long as it listens: the others
/// get the public key from the coordinator, and only they are admitted. It accepts from each no
/// more than a rank may have under way (GroupOptions::kMaxWindow), and closes the connection of one
/// that sends more.
struct RankEndpoint {
  std::unique_ptr<ZmqContext> context;  // ends after the endpoint
  std::unique_ptr<Endpoint> endpoint;
  pb::RankPlace place;
};

/// Listens at `at`; port 0: at any port of that interface.
/// at         "host:port"
/// with_keys  false: any process that reaches the port may send, and reads every byte
/// board      of the ranks that are admitted; outlives the endpoint
/// Errors     as Endpoint::bind
[[nodiscard]] Result<RankEndpoint> listen_as_rank(const std::string& at, bool with_keys,
                                                  const RankBoard& board);

}  // namespace taut::collective
