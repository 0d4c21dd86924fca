#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/memory_network.hpp"
#include "proto/control_session.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/store.hpp"
#include "server/server_jobs.hpp"
#include "server/shard.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut::sim {

/// A whole cluster in one thread: the state machines that the daemons run, over the seeded network,
/// in virtual time. The same seed and plan give the same run.
///
/// The toy job makes every read checkable. Each table has one element for each worker; worker w's
/// update of a table is 1 at element w and 0 elsewhere, updates are added up, the rule is SGD with
/// rate 1: element w of a table is minus the number of w's updates that it holds.
struct Plan {
  std::uint64_t seed = 1;
  int servers = 1;
  int shards_each = 2;
  int workers = 3;
  std::int64_t clocks = 20;
  Slack slack{1};  // 0: BSP
  NetworkFaults faults;
  Duration compute_min{200};  // of one clock
  Duration compute_max{2000};
  Duration limit{600'000'000};  // the run must end within so much virtual time
  Duration heartbeat_limit{2'000'000};

  /// Things that happen while it runs.
  struct Event {
    Duration at;
    enum class Kind { kKillWorker, kStartWorker, kSetSlack, kBreakConnections, kPartition, kHeal };
    Kind kind;
    std::int64_t value = 0;  // the worker, or the slack
  };
  std::vector<Event> events;
};

/// One read of a whole table, as its worker saw it.
struct ReadRecord {
  int worker = 0;  // the process
  WorkerId member;
  std::uint32_t table = 0;
  Clock clock;
  Clock version;
  Slack slack;                // the largest that was in force since the read before
  std::vector<float> values;  // -(updates held), by member
};

struct Outcome {
  bool ended = false;  // the job was done within the limit
  std::string state;
  std::string message;
  TimePoint took;
  std::uint64_t messages = 0;
  std::vector<ReadRecord> reads;
  std::vector<std::vector<float>> final_values;  // by table
  std::vector<pb::Member> members;
  std::string broken;  // the first invariant that did not hold; empty: all did
};

[[nodiscard]] Outcome run(const Plan& plan);

}  // namespace taut::sim
