#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"
#include "lab/network.hpp"
#include "lab/toy_compression.hpp"
#include "lab/toy_job.hpp"
#include "lab/toy_policies.hpp"
#include "worker/client/resend_timer.hpp"

namespace taut::sim {

/// What may go wrong in a run, each on or off.
struct Faults {
  bool drop = false;
  bool duplicate = false;
  bool delay = false;
  bool reorder = false;
  bool partition = false;
  bool reconnect = false;
  bool pause = false;
  bool kill = false;
  bool join = false;
  bool slack = false;       // the bound and the mode change while the job runs
  bool restart = false;     // of the coordinator
  bool disk = false;        // the coordinator's, which is full for a while, or fails
  bool server = false;      // servers are killed, and start again; shards have backups
  bool follow = false;      // readers follow the job, which may wait for them, and are killed
  bool drain = false;       // servers and workers are drained, and start again
  bool checkpoint = false;  // no fault, but at any time: periodic ones, and by hand
  bool shrink = false;      // a job of higher priority takes workers away for a while
  bool stop = false;        // the user has the job saved and stopped

  /// "all", "none", or names separated by commas. "all" excludes `stop`, which ends runs early.
  static Result<Faults> parse(std::string_view text);
  /// Draws a seed's faults: in half of the seeds all but `stop`, in the others each one by chance.
  /// Some bugs show only where something does not happen: a run with all faults ends, or heals,
  /// before they do.
  /// Source    Groce et al., "Swarm testing", ISSTA 2012
  static Faults draw(std::uint64_t seed);
};

/// A run of a cluster: everything that is decided beforehand.
struct Plan {
  struct Event {
    enum class Kind : std::uint8_t {
      kKill,
      kStart,
      kPause,  // a process that is not scheduled: what arrives waits for it
      kResume,
      kSetSlack,
      kBreak,
      kBlock,  // one way; twice for both
      kUnblock,
      kCheckpoint,  // the user orders one
      kStop,        // the user has the job saved and stopped
      kStopCoordinator,
      kStartCoordinator,
      kKillServer,
      kStartServer,
      kDrainServer,
      kDrain,
      kKillFollower,
      kStartFollower,
      kFillDisk,  // the coordinator's: nothing is saved until it is freed
      kFreeDisk,
      kTearSave,       // the disk fails in its next save: stored whole, or not at all (value 0)
      kPreemptingJob,  // a job of higher priority that requires `value` workers is submitted
      kEndPreemptingJob,
    };
    Duration at;
    Kind kind = Kind::kKill;
    // A worker (kKill, kStart, kDrain), a server, a follower, slack, node, number of workers.
    std::int64_t value = 0;
    NodeId towards = 0;  // kBlock, kUnblock
  };

  std::uint64_t seed = 1;
  ToyJob job;
  std::uint32_t servers = 1;
  std::uint32_t shards_each = 2;
  std::uint32_t machines = 0;  // that servers are on, in turn; 0: unknown
  std::uint32_t followers = 0;
  bool followers_bound = false;            // training waits for them
  std::uint32_t replication_interval = 0;  // 0: shards have no backups
  std::uint32_t replication_copies = 1;    // backups of each shard
  bool logs_updates = false;               // they count once the backups have them
  std::uint64_t kept_bytes = 0;            // of updates kept for backups; 0: no limit
  LinkFaults faults;
  double framed = 1.0 / 16;
  Duration compute_min{200};  // of one clock
  Duration compute_max{2000};
  std::int64_t clocks_of_start = 0;  // that a worker takes to start, as workers report; 0: none
  std::uint32_t slow_worker = 0;
  std::int64_t slowness = 1;  // factor on its compute time
  Duration heartbeat_interval{50'000};
  Duration heartbeat_limit{2'000'000};
  bool daemon_limits = false;   // other limits keep the daemons' ratio to it
  bool tells_closed = false;    // the coordinator learns of connections that close
  Duration limit{600'000'000};  // of virtual time
  ResendPolicy resend{Duration(5000), Duration(1000), Duration(200'000)};  // daemons: 1, 0.2, 10 s
  bool may_fail = false;  // an event may rightly end the job early
  std::vector<Event> events;
  /// Servers that are lost and return, and other losses with them.
  struct Outage {
    Duration at;
    std::vector<Event> events;  // `at` since the outage began
  };
  /// Each begins at its time, but not before the previous one is over and every shard has
  /// `replication_copies` complete backups, or as many as the servers allow. That many losses must
  /// not end the job.
  std::vector<Outage> outages;
  // How long after its end a drained process starts again; nullopt: never.
  std::optional<Duration> drained_return{};

  /// Whether a reader gets only what the backups have.
  [[nodiscard]] bool answers_wait() const;

  // Node numbers: the coordinator, the user, the servers, the workers and one more than the job
  // has, then the followers.
  static constexpr NodeId kCoordinatorNode = 0;
  static constexpr NodeId kUserNode = 1;
  [[nodiscard]] NodeId server_node(std::uint32_t server) const { return 2 + server; }
  [[nodiscard]] NodeId worker_node(std::uint32_t worker) const { return 2 + servers + worker; }
  [[nodiscard]] NodeId follower_node(std::uint32_t follower) const {
    return worker_node(job.workers) + 1 + follower;
  }
};

/// What the command line can fix; the rest is drawn.
struct PlanLimits {
  Faults faults;
  bool draws_faults = false;  // Faults::draw() in place of `faults`
  std::optional<std::int64_t> clocks;
  std::optional<std::uint32_t> workers;
  std::optional<std::uint32_t> servers;
  std::optional<Slack> slack;
  const ToyPolicy* policy = nullptr;    // nullptr: drawn
  std::optional<Scheme> scheme;         // of compression
  std::optional<bool> seeded;           // whether members bring the initial values
  bool logs_updates = false;            // where shards have backups; otherwise drawn
  std::optional<std::uint32_t> copies;  // of each shard, where they have backups
  bool by_rows = false;  // a table or two, wherever the job allows it; otherwise drawn
  bool daemon_limits = false;
};

/// The plan of a seed: the same for the same seed and limits.
[[nodiscard]] Plan draw_plan(std::uint64_t seed, const PlanLimits& limits);

}  // namespace taut::sim
