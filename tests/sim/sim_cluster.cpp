#include "tests/sim/sim_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "common/check.hpp"
#include "proto/control_message.hpp"
#include "proto/data_message.hpp"
#include "proto/job_state.hpp"

namespace taut::sim {
namespace {

constexpr const char* kCoordinator = "coordinator:1";
constexpr std::uint32_t kTables = 5;
constexpr std::uint32_t kMembers = 16;  // elements of each table
constexpr Duration kTick{10'000};

std::vector<TableSpec> toy_tables() {
  std::vector<TableSpec> tables;
  for (std::uint32_t i = 0; i < kTables; ++i) {
    TableSpec table;
    table.id = TableId(i);
    table.name = "t" + std::to_string(i);
    table.shape = {kMembers};
    tables.push_back(table);
  }
  return tables;
}

pb::Job toy_job(const Plan& plan) {
  pb::Job job;
  job.set_name("toy");
  job.set_workers(static_cast<std::uint32_t>(plan.workers));
  job.set_reduction(pb::Job::SUM);
  job.mutable_net_param()->set_name("toy");
  job.mutable_solver_param()->set_base_lr(1);
  job.mutable_solver_param()->set_max_iter(static_cast<std::int32_t>(plan.clocks));
  pb::Consistency& consistency = *job.mutable_consistency();
  if (plan.slack.is_unbounded()) {
    consistency.set_mode(pb::Consistency::ASYNC);
  } else if (plan.slack == Slack(0)) {
    consistency.set_mode(pb::Consistency::BSP);
  } else {
    consistency.set_mode(pb::Consistency::SSP);
    consistency.set_slack(static_cast<std::uint32_t>(plan.slack.clocks()));
  }
  return job;
}

/// What every process has: its line to the coordinator.
class ControlNode {
 public:
  ControlNode(MemoryNetwork& network, ControlIdentity identity)
      : endpoint_(network.make_endpoint()),
        session_(std::move(identity), timings(), network.now()),
        coordinator_(endpoint_->connect(kCoordinator).value()) {
    network.name(*endpoint_, "control");
  }
  virtual ~ControlNode() = default;
  ControlNode(const ControlNode&) = delete;
  ControlNode& operator=(const ControlNode&) = delete;

  void step_control(TimePoint now) {
    if (now >= session_.next_tick()) act(session_.tick(now), now);
    while (auto incoming = endpoint_->receive(Duration::zero())) {
      if (auto message = decode_control(incoming->message)) {
        act(session_.handle(message.value(), now), now);
      }
    }
  }
  [[nodiscard]] TimePoint next_control() const { return session_.next_tick(); }
  void break_connections(MemoryNetwork& network) { network.break_connections(*endpoint_); }

 protected:
  virtual void on_event(const ControlEvent& event, TimePoint now) = 0;
  void report(pb::Heartbeat content, TimePoint now) {
    session_.report(std::move(content), true);
    act(session_.tick(now), now);
  }

 private:
  static ControlTimings timings() {
    ControlTimings timings;
    timings.heartbeat_interval = std::chrono::milliseconds(100);
    timings.hello_interval = std::chrono::milliseconds(100);
    timings.silence_limit = std::chrono::milliseconds(1000);
    timings.wait_limit = std::chrono::hours(1);
    return timings;
  }
  void act(ControlOutput output, TimePoint now) {
    if (output.reconnect) {
      endpoint_->disconnect(coordinator_);
      coordinator_ = endpoint_->connect(kCoordinator).value();
    }
    for (const pb::ControlMessage& message : output.messages) {
      (void)endpoint_->send(coordinator_, encode(message));
    }
    for (const ControlEvent& event : output.events) on_event(event, now);
  }

  std::unique_ptr<Endpoint> endpoint_;
  ControlSession session_;
  PeerId coordinator_;
};

class ServerNode final : public ControlNode {
 public:
  struct OneShard {
    std::unique_ptr<Endpoint> endpoint;
    std::string address;
    std::unique_ptr<server::Shard> shard;
  };

  static std::vector<OneShard> make_shards(MemoryNetwork& network, BufferPool& pool, int number,
                                           int count) {
    std::vector<OneShard> shards;
    for (int i = 0; i < count; ++i) {
      OneShard one;
      one.endpoint = network.make_endpoint();
      one.address = one.endpoint->bind(fmt::format("server{}:{}", number, 100 + i)).value();
      one.shard = std::make_unique<server::Shard>(ShardId(static_cast<std::uint32_t>(i)), pool);
      shards.push_back(std::move(one));
    }
    return shards;
  }
  static ControlIdentity identity(int number, const std::vector<OneShard>& shards) {
    ControlIdentity who;
    who.role = pb::ROLE_SERVER;
    who.name = fmt::format("server{}", number);
    who.session = 1000 + static_cast<std::uint64_t>(number);
    for (const OneShard& one : shards) who.shard_addresses.push_back(one.address);
    return who;
  }
  ServerNode(MemoryNetwork& network, int number, std::vector<OneShard> shards)
      : ControlNode(network, identity(number, shards)),
        shards_(std::move(shards)),
        jobs_(shards_.size()) {}

  void step(TimePoint now) {
    step_control(now);
    for (OneShard& one : shards_) {
      while (auto incoming = one.endpoint->receive(Duration::zero())) {
        auto message = decode_data(incoming->message);
        if (message) send(one, one.shard->handle(incoming->from, std::move(message.value())));
      }
    }
    if (auto news = jobs_.take_news()) report(std::move(*news), now);
  }
  /// Values and V of every slice, read from inside.
  [[nodiscard]] std::vector<OneShard>& shards() { return shards_; }

 private:
  static void send(OneShard& one, std::vector<server::Outgoing> messages) {
    for (server::Outgoing& out : messages) (void)one.endpoint->send(out.to, encode(out.message));
  }
  void on_event(const ControlEvent& event, TimePoint /*now*/) override {
    const auto* job = std::get_if<pb::ServerJob>(&event);
    if (job == nullptr) return;
    const auto view = jobs_.take_job(*job);
    if (!view) return;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      OneShard& one = shards_[i];
      one.shard->set_id(ShardId(job->first_shard() + static_cast<std::uint32_t>(i)));
      send(one, one.shard->set_job(view));
      server::ShardReport report = one.shard->report(view->job);
      report.revision = view->revision;
      jobs_.take_report(i, std::move(report));
    }
  }

  std::vector<OneShard> shards_;
  server::ServerJobs jobs_;
};

/// A worker whose compute is a random wait: reads all tables at a clock, then pushes to each.
class WorkerNode final : public ControlNode {
 public:
  WorkerNode(MemoryNetwork& network, int number, std::uint64_t session, const Plan& plan,
             const Slack& slack, std::vector<ReadRecord>& reads)
      : ControlNode(network, identity(number, session)),
        network_(network),
        number_(number),
        plan_(plan),
        slack_(slack),
        reads_(reads),
        random_(plan.seed * 977 + session) {}

  void step(TimePoint now) {
    step_control(now);
    if (!protocol_) return;
    while (auto incoming = data_->receive(Duration::zero())) {
      if (auto message = decode_data(incoming->message)) {
        protocol_->handle(shard_of_.at(incoming->from), message.value(), now);
      }
    }
    for (const CompletedRead& read : protocol_->take_completed()) record(read);
    if (computing_until_ && now >= *computing_until_) finish_clock();
    if (!computing_until_ && waiting_.empty() && clock_ < Clock(plan_.clocks)) {
      std::uniform_int_distribution<Duration::rep> took(plan_.compute_min.count(),
                                                        plan_.compute_max.count());
      computing_until_ = now + Duration(took(random_));
    }
    if (now >= next_tick_) {
      protocol_->tick(now);
      next_tick_ = now + kTick;
    }
    flush(now);
    tell(now);
  }
  [[nodiscard]] TimePoint next(TimePoint now) const {
    TimePoint next = next_control();
    if (protocol_) next = std::min(next, std::max(next_tick_, now + Duration(1)));
    if (computing_until_) next = std::min(next, *computing_until_);
    return next;
  }
  [[nodiscard]] std::string failure() const {
    return protocol_ && protocol_->failure() ? protocol_->failure()->message : std::string();
  }
  void break_connections() {
    ControlNode::break_connections(network_);
    if (data_) network_.break_connections(*data_);
  }
  Slack largest_slack;  // in force since the last clock's reads were sent

 private:
  static ControlIdentity identity(int number, std::uint64_t session) {
    ControlIdentity who;
    who.role = pb::ROLE_WORKER;
    who.name = fmt::format("worker{}", number);
    who.session = session;
    return who;
  }

  void on_event(const ControlEvent& event, TimePoint now) override {
    if (std::holds_alternative<control_event::DeclaredLost>(event)) protocol_.reset();
    const auto* job = std::get_if<pb::WorkerJob>(&event);
    if (job == nullptr) return;
    revision_ = job->revision();
    if (protocol_ && job->incarnation() == incarnation_) {
      if (job->stop()) protocol_.reset();
      tell(now);
      return;
    }
    if (job->stop()) return;
    begin(*job);
  }

  void begin(const pb::WorkerJob& job) {
    incarnation_ = job.incarnation();
    job_ = job.job();
    member_ = WorkerId(job.worker());
    data_ = network_.make_endpoint();
    network_.name(*data_, fmt::format("worker{}", number_));
    shard_of_.clear();
    peer_of_.clear();
    std::vector<ShardId> shards;
    for (const pb::ShardInfo& shard : job.shards()) {
      const PeerId peer = data_->connect(shard.address()).value();
      shard_of_[peer] = ShardId(shard.shard());
      peer_of_[ShardId(shard.shard())] = peer;
      shards.push_back(ShardId(shard.shard()));
    }
    protocol_ = std::make_unique<ClientProtocol>(
        ClientIdentity{JobId(job.job()), member_, Incarnation(incarnation_),
                       job_hash(job.definition())},
        shards, Duration(50'000));
    protocol_->open(toy_tables());
    clock_ = Clock(job.start_clock());
    computing_until_.reset();
    values_.assign(kTables, std::vector<float>(kMembers));
    largest_slack = slack_;
    finished_ = false;
    for (std::uint32_t table = 0; table < kTables; ++table) {
      waiting_.insert(table);
      protocol_->read(TableId(table), clock_, values_[table]);
    }
  }

  void record(const CompletedRead& read) {
    if (read.snapshot || read.clock != clock_) return;
    ReadRecord record;
    record.worker = number_;
    record.member = member_;
    record.table = read.table.value();
    record.clock = read.clock;
    record.version = read.version;
    record.slack = largest_slack;
    record.values = values_[read.table.value()];
    reads_.push_back(std::move(record));
    waiting_.erase(read.table.value());
  }

  void finish_clock() {
    computing_until_.reset();
    largest_slack = slack_;
    Buffer gradient;
    for (std::uint32_t i = kTables; i-- > 0;) {
      gradient = pool_.acquire(kMembers * sizeof(float));
      std::ranges::fill(gradient.floats(), 0.0F);
      gradient.floats()[member_.value()] = 1;
      protocol_->push(TableId(i), clock_, Frame(gradient), 0);
      if (clock_.next() == Clock(plan_.clocks)) continue;
      waiting_.insert(i);
      protocol_->read(TableId(i), clock_.next(), values_[i]);
    }
    clock_ = clock_.next();
  }

  void flush(TimePoint now) {
    if (!protocol_) return;
    for (auto& [shard, message] : protocol_->take_outgoing(now)) {
      (void)data_->send(peer_of_.at(shard), encode(message));
    }
  }

  void tell(TimePoint now) {
    if (!protocol_) return;
    const bool finished = clock_ == Clock(plan_.clocks) && protocol_->unacknowledged() == 0;
    if (finished == finished_ && revision_ == told_revision_ && clock_ == told_clock_) return;
    finished_ = finished;
    told_revision_ = revision_;
    told_clock_ = clock_;
    pb::Heartbeat content;
    pb::Progress& progress = *content.mutable_progress();
    progress.set_job(job_);
    progress.set_revision(revision_);
    progress.set_incarnation(incarnation_);
    progress.set_clock(clock_.value());
    progress.set_finished(finished);
    report(std::move(content), now);
  }

  MemoryNetwork& network_;
  const int number_;
  const Plan& plan_;
  const Slack& slack_;
  std::vector<ReadRecord>& reads_;
  std::mt19937_64 random_;
  BufferPool pool_;
  std::unique_ptr<Endpoint> data_;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  std::unique_ptr<ClientProtocol> protocol_;
  std::uint64_t job_ = 0;
  std::uint64_t incarnation_ = 0;
  std::uint64_t revision_ = 0;
  std::uint64_t told_revision_ = 0;
  Clock told_clock_{-1};
  WorkerId member_;
  Clock clock_;
  std::optional<TimePoint> computing_until_;
  std::set<std::uint32_t> waiting_;
  std::vector<std::vector<float>> values_;
  TimePoint next_tick_;
  bool finished_ = false;
};

/// The user: submits the job, asks how it stands, changes its slack.
class UserNode {
 public:
  UserNode(MemoryNetwork& network, const Plan& plan)
      : endpoint_(network.make_endpoint()), coordinator_(endpoint_->connect(kCoordinator).value()) {
    pb::ControlMessage hello;
    hello.mutable_hello()->set_wire_version(1);
    hello.mutable_hello()->set_role(pb::ROLE_CLIENT);
    hello.mutable_hello()->set_name("user");
    hello.mutable_hello()->set_session(7);
    hello_ = hello;
    *submit_.mutable_submit()->mutable_definition() = toy_job(plan);
    submit_.mutable_submit()->set_token(99);
  }

  void step(TimePoint now) {
    while (auto incoming = endpoint_->receive(Duration::zero())) {
      auto message = decode_control(incoming->message);
      if (!message) continue;
      if (message.value().has_submit_reply() && message.value().submit_reply().job() > 0) {
        submitted_ = true;
      }
      if (message.value().has_command_reply() && message.value().command_reply().error().empty()) {
        slack_.reset();
      }
      if (message.value().has_status_reply() && message.value().status_reply().jobs_size() > 0) {
        status_ = message.value().status_reply().jobs(0);
      }
    }
    if (now < next_) return;
    next_ = now + Duration(50'000);
    (void)endpoint_->send(coordinator_, encode(hello_));
    if (!submitted_) {
      (void)endpoint_->send(coordinator_, encode(submit_));
      return;
    }
    if (slack_) {
      pb::ControlMessage change;
      change.mutable_set_slack()->set_job(1);
      change.mutable_set_slack()->set_slack(slack_->clocks());
      (void)endpoint_->send(coordinator_, encode(change));
    }
    pb::ControlMessage ask;
    ask.mutable_status_request()->set_job(1);
    (void)endpoint_->send(coordinator_, encode(ask));
  }
  void set_slack(Slack slack) { slack_ = slack; }
  [[nodiscard]] TimePoint next() const { return next_; }
  [[nodiscard]] const pb::JobStatus& status() const { return status_; }

 private:
  std::unique_ptr<Endpoint> endpoint_;
  PeerId coordinator_;
  pb::ControlMessage hello_;
  pb::ControlMessage submit_;
  bool submitted_ = false;
  std::optional<Slack> slack_;
  TimePoint next_;
  pb::JobStatus status_;
};

class Cluster {
 public:
  explicit Cluster(const Plan& plan)
      : plan_(plan),
        network_(plan.seed, plan.faults),
        coordinator_endpoint_(network_.make_endpoint()),
        coordinator_(options(plan), {}, network_.now()),
        user_(network_, plan),
        slack_(plan.slack) {
    TAUT_CHECK(coordinator_endpoint_->bind(kCoordinator).has_value(), "a fresh network");
    network_.name(*coordinator_endpoint_, "coordinator");
    for (int i = 0; i < plan.servers; ++i) {
      auto shards = ServerNode::make_shards(network_, pool_, i, plan.shards_each);
      for (auto& one : shards) network_.name(*one.endpoint, fmt::format("server{}", i));
      servers_.push_back(std::make_unique<ServerNode>(network_, i, std::move(shards)));
    }
    for (int i = 0; i < plan.workers; ++i) start_worker(i);
    events_ = plan.events;
    std::ranges::stable_sort(events_, {}, &Plan::Event::at);
  }

  Outcome run() {
    const TimePoint end = network_.now() + plan_.limit;
    while (network_.now() < end && !over()) {
      const TimePoint wake = std::min(next_timer(), end);
      network_.step(wake);
      step_all();
    }
    return collect();
  }

 private:
  static CoordinatorOptions options(const Plan& plan) {
    CoordinatorOptions options;
    options.heartbeat_limit = plan.heartbeat_limit;
    options.resend_interval = std::chrono::milliseconds(50);
    options.session = 5;
    return options;
  }

  void start_worker(int number) {
    workers_[number] = std::make_unique<WorkerNode>(network_, number, next_session_++, plan_,
                                                    slack_, outcome_.reads);
  }

  [[nodiscard]] bool over() const {
    const pb::JobState state = user_.status().state();
    return state == pb::DONE || state == pb::FAILED || state == pb::STOPPED;
  }

  [[nodiscard]] TimePoint next_timer() {
    const TimePoint now = network_.now();
    TimePoint next = std::min(next_coordinator_tick_, user_.next());
    for (const auto& server : servers_) next = std::min(next, server->next_control());
    for (const auto& [number, worker] : workers_) next = std::min(next, worker->next(now));
    if (next_event_ < events_.size()) {
      next = std::min(next, TimePoint(events_[next_event_].at));
    }
    return std::max(next, now);
  }

  void step_all() {
    const TimePoint now = network_.now();
    while (next_event_ < events_.size() && TimePoint(events_[next_event_].at) <= now) {
      happen(events_[next_event_++]);
    }
    while (auto incoming = coordinator_endpoint_->receive(Duration::zero())) {
      if (auto message = decode_control(incoming->message)) {
        carry_out(coordinator_.handle(incoming->from, message.value(), now));
      }
    }
    if (now >= next_coordinator_tick_) {
      carry_out(coordinator_.tick(now));
      next_coordinator_tick_ = now + Duration(20'000);
    }
    for (const auto& server : servers_) server->step(now);
    for (const auto& [number, worker] : workers_) worker->step(now);
    user_.step(now);
  }

  void carry_out(CoordinatorOutput output) {
    for (CoordinatorMessage& one : output.messages) {
      (void)coordinator_endpoint_->send(one.to, encode(one.message));
    }
  }

  void happen(const Plan::Event& event) {
    const int number = static_cast<int>(event.value);
    switch (event.kind) {
      case Plan::Event::Kind::kKillWorker:
        workers_.erase(number);
        break;
      case Plan::Event::Kind::kStartWorker:
        start_worker(number);
        break;
      case Plan::Event::Kind::kSetSlack:
        slack_ = Slack(event.value);
        for (const auto& [n, worker] : workers_) {
          worker->largest_slack = std::max(worker->largest_slack, slack_);
        }
        user_.set_slack(slack_);
        break;
      case Plan::Event::Kind::kBreakConnections:
        if (workers_.contains(number)) workers_.at(number)->break_connections();
        break;
      case Plan::Event::Kind::kPartition:
        network_.partition(fmt::format("worker{}", number), "server0");
        break;
      case Plan::Event::Kind::kHeal:
        network_.heal();
        break;
    }
  }

  Outcome collect() {
    outcome_.ended = user_.status().state() == pb::DONE;
    outcome_.state = pb::JobState_Name(user_.status().state());
    outcome_.message = user_.status().message();
    outcome_.took = network_.now();
    outcome_.messages = network_.delivered();
    for (const auto& [number, worker] : workers_) {
      if (!worker->failure().empty()) {
        outcome_.message += fmt::format("; worker{}: {}", number, worker->failure());
      }
    }
    return std::move(outcome_);
  }

  const Plan plan_;
  MemoryNetwork network_;
  BufferPool pool_;
  std::unique_ptr<Endpoint> coordinator_endpoint_;
  Coordinator coordinator_;
  UserNode user_;
  Slack slack_;
  Outcome outcome_;
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::map<int, std::unique_ptr<WorkerNode>> workers_;
  std::vector<Plan::Event> events_;
  std::size_t next_event_ = 0;
  std::uint64_t next_session_ = 1;
  TimePoint next_coordinator_tick_;
};

}  // namespace

Outcome run(const Plan& plan) {
  Cluster cluster(plan);
  return cluster.run();
}

}  // namespace taut::sim
