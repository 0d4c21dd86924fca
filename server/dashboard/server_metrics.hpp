#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/metrics/metrics.hpp"
#include "proto/control.pb.h"

namespace taut::dashboard {

/// What a server's shards have done.
void add_shards(metrics::Scrape& scrape, const std::string& server,
                const std::vector<pb::ShardLoad>& loads);
/// Jobs and processes as the coordinator knows them.
void add_cluster(metrics::Scrape& scrape, const pb::StatusReply& status);

}  // namespace taut::dashboard
