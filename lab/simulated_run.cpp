#include "lab/simulated_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lab/losses/early_end.hpp"
#include "lab/losses/faulty_store.hpp"
#include "lab/nodes.hpp"

namespace taut::sim {
namespace {

using Kind = Plan::Event::Kind;

class Cluster {
 public:
  Cluster(const Plan& plan, std::function<void(const Event&)> trace)
      : plan_(plan),
        network_(Random::mix(plan.seed ^ 0x5eedULL), plan.faults, plan.framed),
        checker_(plan.job, std::move(trace)),
        history_([this](const History& history) { read(history); }),
        world_{plan_, network_, history_, pool_},
        disk_(std::make_shared<CoordinatorRecords>()),
        disk_faults_(std::make_shared<DiskFaults>()) {
    // What happens to a worker may happen before it has started.
    places_.resize(plan.follower_node(plan.followers) + 1U);
    if (plan.replication_interval > 0) checker_.expect_lost_servers();
    if (plan.logs_updates) checker_.expect_logged_updates();
    if (plan.answers_wait()) checker_.expect_late_answers();
    start_coordinator();
    enter(Plan::kUserNode, std::make_unique<UserNode>(world_));
    for (std::uint32_t i = 0; i < plan.servers; ++i) {
      start_server(i);
    }
    const std::uint32_t workers =
        plan.job.min_workers > 0 ? plan.job.min_workers : plan.job.workers;
    for (std::uint32_t i = 0; i < workers; ++i) start_worker(i);
  }

  Outcome run() {
    const TimePoint end(plan_.limit);
    while (network_.now() < end && !over() && !checker_.broken() && !given_up_early_) {
      const TimePoint timer = next_timer();
      if (network_.next_due() <= timer) {
        if (network_.next_due() > end) break;
        if (auto delivery = network_.take_next()) deliver(std::move(*delivery));
      } else {
        if (timer > end) break;
        network_.advance(std::max(network_.now(), timer));
        wake_up();
      }
    }
    return conclude();
  }

 private:
  struct Place {
    std::unique_ptr<Node> node;
    TimePoint wake = TimePoint::never();
    bool paused = false;
    std::deque<Delivery> waiting;  // for a paused process
    std::uint64_t session = 0;     // of this incarnation
    TimePoint disturbed;           // when something last kept the coordinator from hearing it
  };

  void enter(NodeId number, std::unique_ptr<Node> node, std::uint64_t session = 0) {
    if (places_.size() <= number) places_.resize(number + 1);
    Place& place = places_[number];
    place.node = std::move(node);
    place.wake = network_.now();
    place.paused = false;
    place.waiting.clear();
    place.session = session;
    place.disturbed = network_.now();
  }
  void leave(NodeId number) {
    if (number < places_.size()) places_[number] = Place();
    network_.break_connections(number);
  }
  /// A process has ended on its own, and may be started again.
  void end(NodeId number) {
    const Node::Return back = places_[number].node->returns();
    leave(number);
    if (back == Node::Return::kSoon) {
      returns_[number] = network_.now() + plan_.heartbeat_interval;
    } else if (back == Node::Return::kAsDrained && plan_.drained_return) {
      returns_[number] = network_.now() + *plan_.drained_return;
    }
  }
  void bring_back() {
    const TimePoint now = network_.now();
    for (auto due = returns_.begin(); due != returns_.end();) {
      if (due->second > now) {
        ++due;
        continue;
      }
      const NodeId number = due->first;
      due = returns_.erase(due);
      const NodeId first_worker = plan_.worker_node(0);
      if (places_[number].node) continue;
      if (number == Plan::kCoordinatorNode) {
        start_coordinator();
      } else if (number >= plan_.follower_node(0)) {
        start_follower(static_cast<std::uint32_t>(number - plan_.follower_node(0)));
      } else if (number >= first_worker) {
        start_worker(static_cast<std::uint32_t>(number - first_worker));
      } else {
        start_server(static_cast<std::uint32_t>(number - plan_.server_node(0)));
      }
    }
  }
  void start_coordinator() {
    leave(Plan::kCoordinatorNode);
    enter(Plan::kCoordinatorNode,
          std::make_unique<CoordinatorNode>(
              network_, make_faulty_store(disk_, disk_faults_), Plan::kCoordinatorNode,
              coordinator_options(plan_, next_session_++), DoTask(), plan_.tells_closed));
    // It must hear all of them again.
    for (Place& place : places_) place.disturbed = network_.now();
  }
  void start_server(std::uint32_t number) {
    const NodeId node = plan_.server_node(number);
    leave(node);
    const std::uint64_t session = next_session_++;
    enter(node, std::make_unique<ServerNode>(world_, number, session), session);
  }
  void start_worker(std::uint32_t number) {
    const NodeId node = plan_.worker_node(number);
    leave(node);
    const std::uint64_t session = next_session_++;
    enter(node, std::make_unique<WorkerNode>(world_, number, session), session);
  }

  void start_follower(std::uint32_t number) {
    const NodeId node = plan_.follower_node(number);
    leave(node);
    enter(node, std::make_unique<FollowerNode>(world_, number, next_session_++));
  }

  [[nodiscard]] UserNode& user() { return static_cast<UserNode&>(*places_[Plan::kUserNode].node); }
  [[nodiscard]] bool over() { return user().status().state() >= pb::DONE; }

  [[nodiscard]] TimePoint next_timer() const {
    TimePoint next = TimePoint::never();
    for (const Place& place : places_) {
      if (!place.paused) next = std::min(next, place.wake);
    }
    if (next_event_ < plan_.events.size()) {
      next = std::min(next, TimePoint(plan_.events[next_event_].at));
    }
    for (const auto& [number, at] : returns_) next = std::min(next, at);
    next = std::min(next, next_of_outage());
    return std::max(next, network_.now());
  }

  void deliver(Delivery delivery) {
    if (!network_.is_open(delivery.to)) return;
    Place& place = places_[network_.node_of(delivery.to)];
    if (!place.node) return;
    if (place.paused) {
      place.waiting.push_back(std::move(delivery));
      return;
    }
    place.node->receive(delivery.to, delivery.from, std::move(delivery.body), network_.now());
    step(place);
  }
  void step(Place& place) {
    place.node->step(network_.now());
    place.wake = place.node->wake();
    if (&place == &places_[Plan::kCoordinatorNode]) note_job();
    if (place.node->is_over()) end(static_cast<NodeId>(&place - places_.data()));
  }

  void wake_up() {
    const TimePoint now = network_.now();
    while (next_event_ < plan_.events.size() && TimePoint(plan_.events[next_event_].at) <= now) {
      happen(plan_.events[next_event_++]);
    }
    advance_outages();
    bring_back();
    for (Place& place : places_) {
      if (place.node && !place.paused && place.wake <= now) step(place);
    }
  }

  void happen(const Plan::Event& event) {
    const auto node = static_cast<NodeId>(event.value);
    switch (event.kind) {
      case Kind::kKill:
        leave(plan_.worker_node(static_cast<std::uint32_t>(event.value)));
        break;
      case Kind::kStart:
        start_worker(static_cast<std::uint32_t>(event.value));
        break;
      case Kind::kPause:
        if (places_[node].node) places_[node].paused = true;
        break;
      case Kind::kResume:
        resume(places_[node]);
        break;
      case Kind::kSetSlack:
        user().set_slack(Slack(event.value));
        break;
      case Kind::kCheckpoint:
        user().order_checkpoint();
        break;
      case Kind::kBreak:
        network_.break_connections(node);
        places_[node].disturbed = network_.now();
        break;
      case Kind::kBlock:
        network_.block(node, event.towards, true);
        break;
      case Kind::kUnblock:
        network_.block(node, event.towards, false);
        places_[node].disturbed = places_[event.towards].disturbed = network_.now();
        break;
      case Kind::kFillDisk:
        disk_faults_->is_full = true;
        break;
      case Kind::kFreeDisk:
        disk_faults_->is_full = false;
        break;
      case Kind::kTearSave:
        disk_faults_->next = event.value > 0 ? DiskFaults::Tear::kKept : DiskFaults::Tear::kLost;
        break;
      case Kind::kStop:
        user().stop_job();
        break;
      case Kind::kStopCoordinator:
        leave(Plan::kCoordinatorNode);
        break;
      case Kind::kKillServer:
        leave(plan_.server_node(static_cast<std::uint32_t>(event.value)));
        break;
      case Kind::kDrainServer:
        user().drain(fmt::format("server{}", event.value));
        break;
      case Kind::kDrain:
        user().drain(fmt::format("worker{}", event.value));
        break;
      case Kind::kKillFollower:
        leave(plan_.follower_node(static_cast<std::uint32_t>(event.value)));
        break;
      case Kind::kStartFollower:
        start_follower(static_cast<std::uint32_t>(event.value));
        break;
      case Kind::kPreemptingJob:
        user().start_preempting_job(static_cast<std::uint32_t>(event.value));
        break;
      case Kind::kEndPreemptingJob:
        user().end_preempting_job();
        break;
      case Kind::kStartServer:
        start_server(static_cast<std::uint32_t>(event.value));
        break;
      case Kind::kStartCoordinator:
        start_coordinator();
        break;
    }
  }
  void resume(Place& place) {
    if (!std::exchange(place.paused, false)) return;
    place.disturbed = network_.now();
    for (Delivery& delivery : std::exchange(place.waiting, {})) deliver(std::move(delivery));
    if (place.node) step(place);
  }

  /// Whether nothing has kept the coordinator from hearing a process for `length`.
  [[nodiscard]] bool is_heard(NodeId number, Duration length) const {
    const Place& place = places_[number];
    return place.node && !place.paused && places_[Plan::kCoordinatorNode].node &&
           !network_.is_blocked(number, Plan::kCoordinatorNode) &&
           !network_.is_blocked(Plan::kCoordinatorNode, number) &&
           network_.now() - place.disturbed > length;
  }
  /// The process of a server's session; nullptr if it is gone, or was not heard for that long.
  [[nodiscard]] const ServerNode* find_server(const pb::StoredServer& server,
                                              Duration length) const {
    for (std::uint32_t i = 0; i < plan_.servers; ++i) {
      const NodeId number = plan_.server_node(i);
      if (places_[number].session != server.session() || !is_heard(number, length)) continue;
      return static_cast<const ServerNode*>(places_[number].node.get());
    }
    return nullptr;
  }
  [[nodiscard]] Survivors survivors(Duration length) const {
    const auto find = [this, length](const pb::StoredServer& server) {
      return find_server(server, length);
    };
    return {.is_here = [find](const pb::StoredServer& server) { return find(server) != nullptr; },
            .serves =
                [find](const pb::StoredServer& server, std::uint32_t host, std::uint32_t shard) {
                  const ServerNode* node = find(server);
                  return node != nullptr && node->serves(ShardId(host), ShardId(shard));
                },
            .has_images =
                [find](const pb::StoredServer& server, std::uint32_t host, std::uint32_t shard,
                       std::uint64_t choice) {
                  const ServerNode* node = find(server);
                  return node != nullptr && node->has_images(ShardId(host), ShardId(shard), choice);
                },
            .is_any_worker_here =
                [this, length] {
                  for (NodeId node = plan_.worker_node(0); node < plan_.follower_node(0); ++node) {
                    if (is_heard(node, length)) return true;
                  }
                  return false;
                }};
  }
  /// A job that the coordinator gives up must have been unable to continue.
  void note_job() {
    const auto job = disk_->jobs.find(kToyJobId);
    if (job == disk_->jobs.end()) return;
    take_overs_.look(job->second);
    if (was_given_up_ || job->second.state() != pb::FAILED) return;
    was_given_up_ = true;
    given_up_early_ = check_early_end(job->second, survivors(plan_.heartbeat_limit * 2));
  }

  /// When the next outage may begin, or the present one continues; never if there is none.
  [[nodiscard]] TimePoint next_of_outage() const {
    if (next_outage_ == plan_.outages.size()) return TimePoint::never();
    const Plan::Outage& outage = plan_.outages[next_outage_];
    if (!outage_began_) return std::max(TimePoint(outage.at), outage_again_);
    return *outage_began_ + outage.events[next_of_outage_].at;
  }
  void advance_outages() {
    constexpr Duration kAgain{5000};
    const TimePoint now = network_.now();
    while (next_of_outage() <= now) {
      const Plan::Outage& outage = plan_.outages[next_outage_];
      if (!outage_began_) {
        const auto job = disk_->jobs.find(kToyJobId);
        const std::uint32_t backups = std::min(plan_.replication_copies, plan_.servers - 1);
        const bool runs = job != disk_->jobs.end() && job->second.state() == pb::RUNNING;
        const Survivors now_here = survivors(plan_.heartbeat_interval * 2);
        if (!runs || !has_backups(job->second, now_here, backups)) {
          outage_again_ = now + kAgain;
          return;
        }
        outage_began_ = now;
        next_of_outage_ = 0;
      }
      happen(outage.events[next_of_outage_++]);
      if (next_of_outage_ < outage.events.size()) continue;
      outage_began_.reset();
      ++next_outage_;
    }
  }

  /// Checks the next part of the history, and hashes what its reads held: in a fixed order, so that
  /// runs that read the same at other times have the same hash.
  void read(const History& history) {
    checker_.take(history);
    for (const Event& event : history.events()) {
      const bool final_value =
          event.kind == Event::Kind::kReply && event.item == pb::DataItem::SNAPSHOT_VALUE;
      if (event.kind == Event::Kind::kReadsFrom) {
        members_ = std::max(members_, event.worker.value() + 1);
        first_begun_ = std::min(first_begun_, event.at);
      }
      if (event.kind == Event::Kind::kRead)
        widest_ = std::max(widest_, event.clock - event.version);
      if (event.kind == Event::Kind::kFinished) last_finished_ = event.at;
      if (event.kind == Event::Kind::kPushed) {
        Clock& trained = trained_[event.worker];
        trained = std::max(trained, event.clock.next());
      }
      if (event.kind != Event::Kind::kRead && !final_value) continue;
      std::uint64_t hash =
          Random::mix(std::uint64_t{event.worker.value()} << 32U ^
                      std::uint64_t{event.table.value()} << 16U ^ event.slice.value());
      const Clock clock = final_value ? Clock(-1) : event.clock;
      hash = Random::mix(hash ^ static_cast<std::uint64_t>(clock.value()));
      for (const float value : history.values(event)) {
        hash = Random::mix(hash ^ std::bit_cast<std::uint32_t>(value));
      }
      values_hash_ +=
          final_value && !final_slices_.emplace(event.table, event.slice).second ? 0 : hash;
    }
  }

  /// The clock at which a job was saved before it stopped; nullopt if it was not.
  static std::optional<Clock> saved_at(const pb::JobStatus& status) {
    const int kept = status.checkpoints_size();
    const bool is_saved = status.state() == pb::STOPPED && kept > 0 &&
                          status.message().find("saved at clock") != std::string::npos;
    if (!is_saved) return std::nullopt;
    return Clock(status.checkpoints(kept - 1).clock());
  }

  /// Checks that what a job saved when it was stopped has everything that workers have trained. A
  /// lost worker may have been ahead, and programs are not held.
  std::optional<Broken> check_saved(const pb::JobStatus& status) const {
    const auto saved = saved_at(status);
    if (!saved || plan_.job.is_seeded) return std::nullopt;
    for (const pb::WorkerStatus& worker : status.workers()) {
      const auto trained = trained_.find(WorkerId(worker.worker()));
      if (worker.state() == pb::PROCESS_LOST || trained == trained_.end()) continue;
      if (trained->second <= *saved) continue;
      Broken broken;
      broken.rule = "saved";
      broken.what = fmt::format("worker {} had trained {} clocks, and the job is saved at clock {}",
                                worker.worker(), trained->second.value(), saved->value());
      return broken;
    }
    return std::nullopt;
  }

  Outcome conclude() {
    for (std::uint32_t i = 0; i < plan_.servers; ++i) {
      const auto& node = places_[plan_.server_node(i)].node;
      if (node) static_cast<ServerNode&>(*node).read_all(network_.now());
    }
    const pb::JobStatus& status = user().status();
    Outcome outcome;
    outcome.done = status.state() == pb::DONE;
    outcome.ended = over();
    Event end;
    end.kind = Event::Kind::kEnd;
    end.at = network_.now();
    end.done = Clock(outcome.done ? 1 : (outcome.ended && plan_.may_fail ? 2 : 0));
    history_.add(end);
    history_.finish();
    outcome.state = pb::JobState_Name(status.state());
    outcome.message = status.message();
    outcome.took = network_.now();
    outcome.trained = last_finished_ - first_begun_;
    outcome.messages = network_.delivered();
    outcome.reads = checker_.reads();
    outcome.captured = checker_.captured();
    outcome.checkpoints = static_cast<std::uint64_t>(status.checkpoints_size());
    if (status.checkpoints_size() > 0) {
      outcome.last_checkpoint = status.checkpoints(status.checkpoints_size() - 1).clock();
    }
    outcome.hash = history_.hash();
    outcome.values_hash = values_hash_;
    outcome.members = members_;
    outcome.widest = widest_;
    outcome.is_saved = saved_at(status).has_value();
    outcome.take_overs = take_overs_.counts();
    outcome.broken = given_up_early_ ? given_up_early_ : checker_.broken();
    if (!outcome.broken) outcome.broken = check_saved(status);
    if (outcome.broken && outcome.broken->rule == "end") {
      outcome.broken->what += " [" + outcome.state + ": " + outcome.message + "]";
    }
    return outcome;
  }

  const Plan plan_;
  BufferPool pool_;
  Network network_;
  Checker checker_;
  History history_;
  World world_;
  std::shared_ptr<CoordinatorRecords> disk_;
  std::shared_ptr<DiskFaults> disk_faults_;
  bool was_given_up_ = false;  // the job failed, and that was checked
  std::optional<Broken> given_up_early_;
  TakeOvers take_overs_;
  std::size_t next_outage_ = 0;
  std::optional<TimePoint> outage_began_;
  TimePoint outage_again_;  // when to check again whether it may begin
  std::size_t next_of_outage_ = 0;
  std::vector<Place> places_;  // by node
  std::size_t next_event_ = 0;
  std::map<NodeId, TimePoint> returns_;  // of processes that have ended on their own
  std::uint64_t next_session_ = 1;
  std::uint64_t values_hash_ = 0;
  std::map<WorkerId, Clock> trained_;  // the clocks that each worker has pushed
  std::uint32_t members_ = 0;
  std::int64_t widest_ = 0;
  TimePoint first_begun_ = TimePoint::never();
  TimePoint last_finished_;
  std::set<std::pair<TableId, SliceId>> final_slices_;
};

}  // namespace

Outcome run(const Plan& plan, std::function<void(const Event&)> trace) {
  Cluster cluster(plan, std::move(trace));
  return cluster.run();
}

}  // namespace taut::sim
