#pragma once

#include <string>

#include "common/net/security.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"

namespace taut {

/// What a daemon proves itself with, and which processes it admits: its key in the folder that its
/// config names, or in the user's own, which is made where there is none.
/// role      kServer or kWorker
/// Errors    no such key, or one that other users can read, with what to do
[[nodiscard]] Result<Security> daemon_security(const pb::ClusterConfig& config,
                                               const std::string& name, KeyRole role);

/// What a daemon says in its hello of the data plane of its config.
[[nodiscard]] pb::DataSecurity data_security(const pb::ClusterConfig& config);

/// Threads of ZeroMQ that send, receive and encrypt, as a daemon's config says.
[[nodiscard]] int io_threads(const pb::ClusterConfig& config);

/// What a command proves itself with, as a cluster's config says.
[[nodiscard]] Result<Security> user_security(const pb::ClusterConfig& config);

/// What logins to a daemon's HTTP are made from; empty: it is served without a login.
[[nodiscard]] Result<std::string> http_secret(const pb::ClusterConfig& config);

}  // namespace taut
