#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "lab/contract/history.hpp"
#include "lab/network.hpp"
#include "lab/node.hpp"
#include "lab/run_plan.hpp"
#include "proto/session/last_clocks.hpp"
#include "proto/session/share_orders.hpp"
#include "server/server_jobs.hpp"
#include "server/shard.hpp"
#include "server/tables/table_memory.hpp"
#include "worker/client/client_protocol.hpp"
#include "worker/client/update_encoder.hpp"
#include "worker/follower/follower_protocol.hpp"

namespace taut::sim {

/// What the processes of one run share; apart from the network, the plan and the record, nothing
/// that real processes would not have.
struct World {
  const Plan& plan;
  Network& network;
  History& history;
  BufferPool& pool;
};

/// The timings of a plan's processes.
[[nodiscard]] ControlTimings control_timings(const Plan& plan);
[[nodiscard]] CoordinatorOptions coordinator_options(const Plan& plan, std::uint64_t session);

class ServerNode final : public ControlNode {
 public:
  ServerNode(World& world, std::uint32_t number, std::uint64_t session);
  ~ServerNode() override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override;
  /// Reads every slice once more, from outside, after the end.
  void read_all(TimePoint now);
  /// Whether one of its hosts serves a shard of the job, or has images of all of it as a backup by
  /// this choice.
  [[nodiscard]] bool serves(ShardId host, ShardId shard) const;
  [[nodiscard]] bool has_images(ShardId host, ShardId shard, std::uint64_t choice) const;

 private:
  struct OneShard {
    SocketId socket;
    std::unique_ptr<server::Shard> shard;
    std::vector<Slice> places;
    std::set<ShardId> served;
  };
  void on_event(const ControlEvent& event, TimePoint now) override;
  void on_data(SocketId socket, PeerId from, DataMessage message, TimePoint now) override;
  void say(OneShard& one, std::vector<server::Outgoing> messages, TimePoint now);
  void record_captures(std::size_t number, TimePoint now);
  void check_written(TimePoint now);

  void take_job(const pb::ServerJob& job, const server::JobView& view, OneShard& one,
                TimePoint now);
  void send_images(TimePoint now);

  World& world_;
  /// A capture that is not released yet, with a copy of its content.
  struct Written {
    Event event;
    server::SliceImage image;
    std::vector<float> values;
    std::vector<std::uint64_t> rows;
    int messages = 0;
  };
  std::vector<Written> written_;
  std::optional<server::TableMemory::Share> others_;  // all that the tables leave
  std::vector<OneShard> shards_;
  TimePoint images_due_ = TimePoint::never();
  server::ServerJobs jobs_;
  JobId job_;
  std::string hash_;
};

/// A worker whose compute is a wait: reads all tables at a clock, then pushes to each.
class WorkerNode final : public ControlNode {
 public:
  WorkerNode(World& world, std::uint32_t number, std::uint64_t session);
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override;
  [[nodiscard]] bool is_over() const override {
    return is_refused_ || has_given_up_ || ControlNode::is_over();
  }
  [[nodiscard]] Return returns() const override;

 private:
  void on_event(const ControlEvent& event, TimePoint now) override;
  void on_data(SocketId socket, PeerId from, DataMessage message, TimePoint now) override;
  void begin(const pb::WorkerJob& job, TimePoint now);
  void connect(const pb::ShardInfo& shard);
  void move_shards(const pb::WorkerJob& job, TimePoint now);
  void stop();
  void serve_preempting_job(const pb::WorkerJob& job);
  void ask(TableId table, TimePoint now);
  void ask_rows(const TableSpec& table, Event event);
  void push_rows(const TableSpec& table, Event event);
  void take(const CompletedRead& read, TimePoint now);
  [[nodiscard]] bool begins_clock();
  void finish_clock(TimePoint now);
  void note_progress(TimePoint now);
  [[nodiscard]] pb::Heartbeat place() const;
  [[nodiscard]] bool gives_up(TimePoint now);
  void give_up();
  void serve_checkpoint();
  [[nodiscard]] Event event_of(Event::Kind kind, TimePoint now) const;
  [[nodiscard]] bool leaves() const { return leaves_ || leaves_job_; }
  /// Whether it must leave but has not yet pushed what its updates left out.
  [[nodiscard]] bool owes_rest() const;

  World& world_;
  Random random_;
  const std::uint32_t number_;
  std::optional<SocketId> data_;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  std::unique_ptr<ClientProtocol> protocol_;
  std::unique_ptr<UpdateEncoder> encoder_;
  std::unique_ptr<ShareOrders> shares_ = std::make_unique<ShareOrders>();
  std::unique_ptr<LastClocks> last_clocks_ = std::make_unique<LastClocks>();
  BatchShares::Part part_of_batch_;  // of the clock that it computes, in a job that balances
  double computed_s_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t job_ = 0;
  std::uint64_t revision_ = 0;
  std::uint64_t reported_revision_ = 0;
  Clock reported_clock_{-1};
  pb::CheckpointOrder order_;  // the newest
  pb::CheckpointPart part_;    // its answer
  bool owes_part_ = false;
  std::uint64_t reported_part_ = 0;
  Incarnation incarnation_;
  WorkerId member_;
  Clock clock_;
  Clock begun_at_;  // as a member
  std::vector<TableSpec> tables_;
  std::vector<std::vector<float>> values_;        // by table
  std::vector<std::vector<std::uint64_t>> rows_;  // that are read, by table
  std::vector<bool> waiting_;                     // by table
  std::size_t waits_ = 0;
  Clock reached_ = Clock::never();  // the lowest V of the tables that have arrived
  std::optional<TimePoint> computing_until_;
  TimePoint next_tick_;
  bool finished_ = false;
  bool failed_ = false;
  bool leaves_ = false;      // its process must end
  bool leaves_job_ = false;  // and stays for other jobs
  bool is_refused_ = false;  // by the coordinator
  Duration silence_{0};      // of a shard, after which it gives up
  TimePoint waits_from_;     // since when it waits for shards
  TimePoint next_look_;      // check for silent shards
  bool has_given_up_ = false;
  // Of a job that only takes workers away: the incarnation that this process has in one, and those
  // that it has ended.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> preempting_job_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> ended_preempting_jobs_;
};

/// A reader that follows the job, bounded or not: reads, rests, and reads again.
class FollowerNode final : public Node {
 public:
  FollowerNode(World& world, std::uint32_t number, std::uint64_t session);
  ~FollowerNode() override;
  void receive(SocketId socket, PeerId from, Body body, TimePoint now) override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override { return next_tick_; }
  /// It was cut off: another follower takes its place.
  [[nodiscard]] bool is_over() const override {
    return protocol_.failure().has_value() && !protocol_.is_over();
  }
  [[nodiscard]] Return returns() const override { return Return::kSoon; }

 private:
  void wish(TimePoint now);
  void take(TimePoint now);

  World& world_;
  const NodeId node_;
  Random random_;
  const FollowerId id_;
  SocketId socket_;
  PeerId coordinator_;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  FollowerProtocol protocol_;
  bool has_wish_ = false;
  TimePoint next_wish_;
  TimePoint next_tick_;
};

/// The user: submits the job, requests its status, changes its slack.
class UserNode final : public Node {
 public:
  explicit UserNode(World& world);
  void receive(SocketId socket, PeerId from, Body body, TimePoint now) override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override { return next_; }
  void set_slack(Slack slack);
  void drain(const std::string& process) { drained_ = process; }
  void order_checkpoint() { checkpoint_ordered_ = true; }
  /// Saves the job, then stops it.
  void stop_job() { stops_ = true; }
  /// Starts a job of higher priority that requires `workers` workers, and ends it.
  void start_preempting_job(std::uint32_t workers);
  void end_preempting_job() { preempting_job_ends_ = true; }
  [[nodiscard]] const pb::JobStatus& status() const { return status_; }

 private:
  void send(pb::ControlMessage message);
  void drive_preempting_job();

  World& world_;
  SocketId socket_;
  PeerId coordinator_;
  std::uint64_t preempting_jobs_ = 0;     // how many were submitted
  std::uint32_t preempting_workers_ = 0;  // of the newest; 0: it has ended
  std::uint64_t preempting_job_ = 0;      // its number; 0: unknown
  bool preempting_job_ends_ = false;
  bool submitted_ = false;
  std::optional<Slack> slack_;
  std::uint64_t slack_request_ = 100;
  bool checkpoint_ordered_ = false;
  bool stops_ = false;   // until the answer
  std::string drained_;  // a process to drain; empty: none
  TimePoint next_;
  pb::JobStatus status_;
};

}  // namespace taut::sim
