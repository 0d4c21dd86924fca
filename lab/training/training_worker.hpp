#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/recent_rate.hpp"
#include "common/system/fiber.hpp"
#include "lab/node.hpp"
#include "lab/training/node_endpoint.hpp"
#include "lab/training/world.hpp"
#include "worker/client/client.hpp"
#include "worker/job_progress.hpp"
#include "worker/job_run.hpp"
#include "worker/state_saver.hpp"

namespace taut::lab {

/// A worker: its line to the coordinator, and its run of a job on a fiber, which is suspended while
/// time passes.
class TrainingWorker final : public sim::ControlNode, private worker::RunPlace {
 public:
  /// start  of this worker, from 0
  TrainingWorker(World& world, std::uint32_t number, std::uint64_t start, ControlTimings timings);
  ~TrainingWorker() override;

  void receive(sim::SocketId socket, PeerId from, sim::Body body, TimePoint now) override;
  void step(TimePoint now) override;
  void hand_over() override;

 private:
  class VirtualPace;
  /// The running job, or the last one.
  struct Run {
    pb::WorkerJob job;
    TimePoint begun;
    worker::RunOrders orders;
    worker::ProgressBoard board;
    worker::StateSaver saver{worker::StateSaver::Writes::kAtOnce};
    RecentRate rate;
    worker::RunEnd end;
    Playback::Totals played;       // what the playback knows of it
    std::size_t tests = 0;         // that the playback knows
    TimePoint last_tested;         // when the newest batch of a test was computed
    std::unique_ptr<Fiber> fiber;  // last: its stack uses the others
  };

  void on_event(const ControlEvent& event, TimePoint now) override;
  void on_data(sim::SocketId, PeerId, DataMessage, TimePoint) override {}
  void take_job(const pb::WorkerJob& job);
  void order_checkpoint(const pb::WorkerJob& job);
  void stop_run();
  void run(Run& run);
  void report_progress();

  // The run's environment, called on its fiber.
  std::unique_ptr<Endpoint> make_endpoint() override;
  Result<collective::RankEndpoint> listen_as_rank(const collective::RankBoard& board) override;
  void work_with(const std::function<void()>& work) override { exchange_ = work; }
  worker::Pace& pace() override;
  bool has_threads() const override { return false; }
  std::shared_ptr<Net> shared_net() override { return world_.net; }
  bool learns() const override { return world_.memory == nullptr; }
  std::unique_ptr<ValueStore> make_store(Client& client, const ServedOptions& options) override;
  std::shared_ptr<BufferPool> update_pool() override { return world_.updates; }
  void use(Client* client) override;

  /// Adds an action to the agenda, which is skipped if this process has ended by then.
  void at(TimePoint time, Agenda::Action action);
  void note_layer(worker::Pace::Pass pass, std::size_t layer);
  /// Tells the playback that a layer is computed forward.
  void play_forward(std::size_t layer, Clock clock);
  /// Reports what is new in the run's figures to the playback.
  void play(Run& run) const;
  /// Records what was done from `begin` until now in the timeline and the playback.
  void show(VirtualTimeline::Kind kind, std::string_view name, Clock clock, TimePoint begin) const;
  void show_layer(worker::Pace::Pass pass, std::size_t layer, Clock clock, TimePoint begin) const;
  /// What the fiber waits for messages from.
  enum class Waits : std::uint8_t { kNot, kShards, kRanks };
  /// Suspends the fiber until resume(), at most `at_most`.
  void pass(Waits what, Duration at_most);
  /// Suspends the fiber while a core computes for `microseconds`.
  void compute(double microseconds);
  void leave();
  void resume();
  void send(sim::SocketId from, PeerId to, Message message);
  /// A header that lists all tables has the same bytes for every shard: one copy is kept.
  void share_header(Message& message);
  /// The time to encode a message's payloads, or to decode them if it has arrived.
  [[nodiscard]] double coding_us(const Message& message, bool has_arrived);
  void arrive(sim::SocketId socket, PeerId from, Message message);
  void wake_client();
  void let_client_work();
  /// Continues the exchange among workers after the current event.
  void exchange_soon();
  void keep_client_working(std::uint64_t use);

  World& world_;
  const std::uint32_t number_;
  const std::uint64_t starts_;
  const pb::ClusterConfig config_;
  const std::size_t reading_layer_;  // the first that has parameters
  Lane lane_;                        // the client's thread
  std::unique_ptr<VirtualPace> pace_;
  const std::shared_ptr<int> life_ = std::make_shared<int>();  // ends with the process
  std::unique_ptr<Run> run_;
  std::optional<pb::WorkerJob> next_job_;  // that waits for the end of the run
  NodeEndpoint* endpoint_ = nullptr;       // the run's, to shards
  NodeEndpoint* ranks_ = nullptr;          // the run's, to other workers
  std::uint64_t listened_ = 0;             // as a rank
  std::function<void()> exchange_;         // what continues the exchange; may be empty
  Client* client_ = nullptr;               // the run's
  Waits waits_ = Waits::kNot;
  bool work_is_due_ = false;
  bool exchange_is_due_ = false;
  std::uint64_t waits_so_far_ = 0;
  Stopwatch entered_;   // since the fiber was entered, by this machine's time
  double busy_us_ = 0;  // of the fiber, since a layer was last noted
  Frame long_header_;   // the last one that was sent
  Encoded encoded_;
  std::uint64_t arrived_ = 0;  // bytes of messages since the client last worked
  std::uint64_t uses_ = 0;     // of clients
  bool leaves_ = false;        // the job, at the end of a clock
  bool reported_end_ = false;
  std::uint64_t reported_revision_ = 0;
};

}  // namespace taut::lab
