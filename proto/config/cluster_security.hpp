#pragma once

#include <string>

#include "common/net/security.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"

namespace taut {

/// The key with which a daemon proves its identity, and which processes it admits. The key is in
/// the folder that its config names, or in the user's own, which is made if it does not exist.
/// role      kServer or kWorker
/// Errors    no such key, or one that other users can read, with what to do
[[nodiscard]] Result<Security> daemon_security(const pb::ClusterConfig& config,
                                               const std::string& name, KeyRole role);

/// What a daemon's hello states about the data plane of its config.
[[nodiscard]] pb::DataSecurity data_security(const pb::ClusterConfig& config);

/// How many ZeroMQ threads send, receive and encrypt, according to a daemon's config.
[[nodiscard]] int io_threads(const pb::ClusterConfig& config);

/// The key with which a command proves its identity, according to a cluster's config.
[[nodiscard]] Result<Security> user_security(const pb::ClusterConfig& config);

/// The secret from which logins to a daemon's HTTP are made; empty if it needs no login.
[[nodiscard]] Result<std::string> http_secret(const pb::ClusterConfig& config);

}  // namespace taut
