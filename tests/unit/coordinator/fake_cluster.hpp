#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/ssp/slice_clock.hpp"
#include "proto/config/external_job.hpp"
#include "proto/session/control_session.hpp"
#include "proto/session/last_clocks.hpp"
#include "proto/session/share_orders.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/store/store.hpp"

namespace taut {

/// A server with one slice, kept by the real SliceClock. It checks that no change of membership or
/// mode contradicts what it has already accepted.
class FakeServer {
 public:
  void take(const pb::ServerJob& state);
  /// A job's state is applied on receipt, or once it is no longer busy.
  void set_busy(bool busy);
  [[nodiscard]] bool may_read(const pb::WorkerJob& job, std::int64_t clock) const;
  bool push(const pb::WorkerJob& job, std::int64_t clock);
  [[nodiscard]] pb::Heartbeat report() const;
  void forget() { jobs_.clear(); }

  [[nodiscard]] const pb::ServerJob* state_of(std::uint64_t job) const;
  [[nodiscard]] bool has_finished(std::uint64_t job) const;
  std::string refuses;    // why it runs no job; empty if it does
  std::string disk;       // why it cannot write checkpoints; empty if it can
  std::string memory;     // why it keeps no images of shards; empty if it does
  bool is_whole = false;  // it says that it has all images of the shards that its first host keeps
  bool stalls = false;    // its disk neither writes nor fails
  std::map<std::uint32_t, std::uint64_t> bad_updates;  // of workers: clocks that it has refused
  int late = 0;                     // the number of checkpoint orders that are too late for it
  std::vector<std::string> broken;  // contradictions found

 private:
  struct Kept {
    pb::ServerJob state;
    SliceClock clock;
    std::int64_t max_done = 0;
  };
  void report_checkpoint(const Kept& kept, pb::CheckpointPart& part) const;
  void report_copies(const pb::ServerJob& state, pb::ServerJobReply& reply) const;
  void apply(const pb::ServerJob& state);
  void check(const Kept& kept, const pb::ServerJob& next);

  std::map<std::uint64_t, Kept> jobs_;
  std::map<std::uint64_t, pb::ServerJob> waiting_;
  bool busy_ = false;
};

/// A worker whose training is counting its clock up, as the servers let it.
class FakeWorker {
 public:
  void take(const pb::WorkerJob& state);
  void forget() { *this = FakeWorker(); }
  void step(const std::vector<FakeServer*>& servers);
  [[nodiscard]] pb::Heartbeat report() const;
  [[nodiscard]] std::int64_t clock() const { return progress_.clock(); }
  [[nodiscard]] const std::optional<pb::WorkerJob>& job() const { return job_; }
  /// Its parts of the batches of a job that balances, by clock.
  [[nodiscard]] const std::map<std::int64_t, BatchShares::Part>& parts() const { return parts_; }

  bool stuck = false;       // neither trains nor heeds a stop
  std::string fails;        // why it gives up
  bool diverges = false;    // what fails is the training, not the worker
  double slowness = 1;      // in a job that balances: milliseconds that each of its records takes
  double fixed_s = 0;       // and seconds that each batch takes in addition
  double start_s = 0;       // that it says it took to start; 0: it does not say
  bool tests = false;       // it has trained all clocks, and its last test lasts
  std::uint64_t saved = 0;  // the order of a checkpoint of which it has written its part
  bool listens = true;      // where the job's workers sum among themselves
  std::optional<pb::CompressionCosts> measured;  // of a job whose compression is AUTO
  std::optional<pb::SilentShard> silent;         // that owes it an answer, as it says
  std::uint64_t broken = 0;  // the number of a group of them in which its sums failed
  enum class Leaves : std::uint8_t { kNot, kForNow, kFinished };
  Leaves leaves = Leaves::kNot;  // at the end of a clock

 private:
  void finish();
  [[nodiscard]] bool begins(std::int64_t clock);
  std::optional<pb::WorkerJob> job_;
  std::shared_ptr<ShareOrders> shares_ = std::make_shared<ShareOrders>();
  std::shared_ptr<LastClocks> last_clocks_ = std::make_shared<LastClocks>();
  std::optional<BatchShares::Part> part_;  // of the clock that it computes
  std::map<std::int64_t, BatchShares::Part> parts_;
  std::uint64_t began_ = 0;  // job and life that the progress is of
  std::uint64_t began_as_ = 0;
  pb::Progress progress_;
  std::set<FakeServer*> pushed_;
};

struct FakeNetwork {
  double drop = 0;
  double duplicate = 0;
  Duration delay_max{1000};  // drawn again for each message, so that they overtake each other
};

/// A coordinator, servers, workers and a seeded network between them, in virtual time.
class FakeCluster {
 public:
  struct Process {
    std::string name;
    pb::Role role = pb::ROLE_UNKNOWN;
    std::unique_ptr<ControlSession> session;
    PeerId peer;
    bool cut_off = false;  // nothing goes through
    FakeServer server;
    FakeWorker worker;
    std::vector<ControlEvent> events;
    pb::NodeFacts facts;  // with its heartbeats, unless their number is 0
  };

  explicit FakeCluster(std::uint64_t seed = 1, FakeNetwork network = {},
                       std::unique_ptr<CoordinatorStore> store = make_memory_store());

  /// table_limit  bytes that it takes of tables; 0: not known
  Process& add_server(const std::string& name, std::size_t shards = 1,
                      std::uint64_t table_limit = 0);
  /// job  the only one that it is for; 0: those with a net
  Process& add_worker(const std::string& name, std::uint64_t job = 0);
  /// What a worker says that it has.
  struct Offer {
    std::string host{};
    std::uint64_t memory = 0;
    std::uint32_t devices = 0;
  };
  Process& add_worker(const std::string& name, const Offer& offer);
  /// The process ends without a word. Adding one of the same name starts it again.
  void kill(const std::string& name);
  [[nodiscard]] Process& at(const std::string& name) { return processes_.at(name); }

  void run_for(Duration time);
  /// Until something holds. Returns whether it came to hold within `limit`.
  bool run_until(const std::function<bool()>& holds, Duration limit = std::chrono::seconds(60));
  /// The coordinator ends and starts again from what it saved, `pause` later.
  void restart_coordinator(Duration pause);
  /// The coordinator does not run for a while, and what is sent to it meanwhile does not arrive.
  void pause_coordinator(Duration pause);

  /// Asks the coordinator as a client would.
  pb::ControlMessage ask(pb::ControlMessage request);
  pb::SubmitReply submit(const pb::Job& job, std::uint64_t token = 0, const std::string& user = "");
  pb::JobStatus status(std::uint64_t job);
  pb::CommandReply set_slack(std::uint64_t job, std::int64_t slack);
  pb::CommandReply stop(std::uint64_t job, bool discard = true);
  pb::CommandReply finish(std::uint64_t job);
  bool run_until_state(std::uint64_t job, pb::JobState state);

  /// A message of the holder of a key that is none of the processes; what it has no right to send
  /// does not arrive.
  void hear(PeerId from, const Identity& sender, const pb::ControlMessage& message);

  /// Contradictions that any server found.
  [[nodiscard]] std::vector<std::string> broken() const;
  [[nodiscard]] TimePoint now() const { return now_; }

  CoordinatorOptions options;
  std::vector<std::string> notes;      // for the log
  CheckpointTasks tasks;               // that the coordinator has given, in their order
  std::string task_fails;              // what becomes of them; empty: they go well
  bool tasks_get_lost = false;         // the thread that does them ends before
  std::set<std::string> silent_disks;  // of servers that remove no parts

 private:
  struct Flight {
    PeerId peer;
    bool to_coordinator = false;
    pb::ControlMessage message;
  };

  void start(Process& process, ControlIdentity identity);
  void step();
  void carry_out(const CoordinatorOutput& output);
  void carry_out(Process& process, const ControlOutput& output);
  void put(PeerId peer, bool to_coordinator, const pb::ControlMessage& message);
  void deliver(const Flight& flight);
  Process* find(PeerId peer);

  std::unique_ptr<CoordinatorStore> store_;
  std::unique_ptr<Coordinator> coordinator_;
  TimePoint now_{std::chrono::hours(1)};
  TimePoint next_coordinator_tick_ = now_;
  FakeNetwork network_;
  std::mt19937_64 random_;
  std::multimap<TimePoint, Flight> flights_;
  std::map<std::string, Process> processes_;
  std::vector<std::string> broken_;  // found by servers that are gone
  std::uint64_t next_peer_ = 1;
  std::uint64_t next_session_ = 100;
};

/// A definition that passes the coordinator's checks.
[[nodiscard]] pb::Job make_job(std::uint32_t workers, std::int32_t max_iter = 1000000,
                               std::uint32_t slack = 1);

}  // namespace taut
