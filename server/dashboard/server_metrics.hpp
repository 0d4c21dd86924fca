#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/metrics/metrics.hpp"
#include "proto/control.pb.h"

namespace taut::dashboard {

/// The figures of one shard of this process.
struct ShardFigures {
  pb::ShardLoad load;
  std::uint64_t parked_reads = 0;  // an update or a read counts once for each slice of its table
  std::uint64_t held_updates = 0;
  std::uint64_t held_bytes = 0;
  std::uint64_t postponed_updates = 0;  // since its process started
  std::uint64_t rows = 0;               // of tables that are kept by rows
  std::uint64_t dropped_rows = 0;
};

/// The figures of a server process: its shards in order, and the memory of its tables.
struct ServerFigures {
  std::vector<ShardFigures> shards;
  std::uint64_t table_bytes = 0;
  std::uint64_t table_limit_bytes = 0;
};

void add_server(metrics::Scrape& scrape, const std::string& server, const ServerFigures& figures);
/// Jobs and processes as the coordinator knows them.
void add_cluster(metrics::Scrape& scrape, const pb::StatusReply& status);

}  // namespace taut::dashboard
