#include "lab/training/training_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "common/log.hpp"
#include "worker/cache/host_store.hpp"

namespace taut::lab {
namespace {

// As often as the client's own thread checks whether to send something again.
constexpr Duration kIdle{100'000};
constexpr std::size_t kStack = 512UL << 10U;

ControlIdentity identity_of(const World& world, std::uint32_t number, std::uint64_t start) {
  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  identity.name = fmt::format("worker{}", number);
  identity.session = start << 40U | 1ULL << 32U | number;
  const sim::NodeId node = world.topology->worker_node(number);
  const Topology::Host& host = world.topology->hosts()[world.topology->host_of(node)];
  identity.device = world.backend->description();
  identity.host = host.name;
  return identity;
}

std::size_t first_with_parameters(const model::Graph& graph) {
  const auto found = std::ranges::find_if(
      graph.nodes, [](const model::Node& node) { return !node.parameters.empty(); });
  return static_cast<std::size_t>(found - graph.nodes.begin());
}

/// A worker's activity as a playback's state.
Playback::State state_of(VirtualTimeline::Kind kind) {
  switch (kind) {
    case VirtualTimeline::Kind::kCompute:
      return Playback::State::kComputing;
    case VirtualTimeline::Kind::kPause:
      return Playback::State::kPaused;
    default:
      return Playback::State::kWaiting;
  }
}

pb::ClusterConfig config_of(const World& world, std::uint32_t number) {
  pb::ClusterConfig config = world.config;
  config.mutable_worker()->set_name(fmt::format("worker{}", number));
  return config;
}

}  // namespace

/// Time as the run observes it.
class TrainingWorker::VirtualPace final : public worker::Pace {
 public:
  explicit VirtualPace(TrainingWorker& worker) : worker_(worker) {}
  TimePoint now() const override { return worker_.world_.now(); }
  double unix_s() const override { return seconds(now().since_origin()); }
  void sleep(Duration duration) override {
    const TimePoint begin = now();
    worker_.at(begin + duration, [this] { worker_.resume(); });
    worker_.leave();
    worker_.show(VirtualTimeline::Kind::kPause, "pause", Clock(-1), begin);
  }
  void computed(Pass pass, std::size_t layer, Clock clock) override {
    const TimePoint begin = now();
    if (worker_.world_.meter != nullptr) worker_.note_layer(pass, layer);
    if (pass == Pass::kForward) worker_.play_forward(layer, clock);
    if (pass == Pass::kForward && layer == worker_.reading_layer_) {
      worker_.world_.pace->begin(worker_.number_, clock, begin);
    }
    const double feed = share_ * worker_.world_.times->feed();
    if (feed > 0 && pass == Pass::kForward && layer == 0) {
      worker_.world_.machine_of(worker_.node_).run(feed, [] {});
    }
    worker_.compute(share_ * worker_.world_.times->layer(pass, layer, worker_.number_, clock));
    worker_.show_layer(pass, layer, clock, begin);
  }
  void set_share(double share) override { share_ = share; }
  void tested(std::int64_t records) override {
    const TimePoint begin = now();
    worker_.compute(worker_.world_.times->test(records));
    worker_.run_->last_tested = now();
    worker_.show(VirtualTimeline::Kind::kCompute, "test", Clock(-1), begin);
  }

 private:
  TrainingWorker& worker_;
  double share_ = 1;
};

TrainingWorker::TrainingWorker(World& world, std::uint32_t number, std::uint64_t start,
                               ControlTimings timings)
    : ControlNode(*world.network, world.topology->worker_node(number),
                  identity_of(world, number, start), timings),
      world_(world),
      number_(number),
      starts_(start),
      config_(config_of(world, number)),
      reading_layer_(first_with_parameters(world.assets->train_graph())),
      lane_(world.machine_of(node_)),
      pace_(std::make_unique<VirtualPace>(*this)) {}

// Its stack uses the rest.
TrainingWorker::~TrainingWorker() {
  run_.reset();
}

void TrainingWorker::at(TimePoint time, Agenda::Action action) {
  world_.agenda.at(time, [life = std::weak_ptr(life_), action = std::move(action)] {
    if (!life.expired()) action();
  });
}

void TrainingWorker::receive(sim::SocketId socket, PeerId from, sim::Body body, TimePoint now) {
  auto* message = std::get_if<Message>(&body);
  if (message == nullptr) return ControlNode::receive(socket, from, std::move(body), now);
  const pb::LabCosts& costs = world_.costs;
  const double takes =
      message_us(costs.client_message_us(), costs.client_us_per_mib(), bytes_of(*message)) +
      coding_us(*message, true);
  world_.clients_us += takes;
  lane_.add([this, takes, socket, from, message = std::move(*message)] {
    return Lane::Work{takes, [this, socket, from, message] { arrive(socket, from, message); }};
  });
}

void TrainingWorker::arrive(sim::SocketId socket, PeerId from, Message message) {
  if (ranks_ != nullptr && ranks_->socket() == socket) {
    ranks_->take(from, std::move(message));
    if (waits_ == Waits::kRanks) {
      resume();
    } else {
      exchange_soon();
    }
    return;
  }
  if (endpoint_ == nullptr || endpoint_->socket() != socket) return;
  arrived_ += bytes_of(message);
  endpoint_->take(from, std::move(message));
  if (waits_ == Waits::kShards) {
    resume();
  } else {
    let_client_work();
  }
}

void TrainingWorker::send(sim::SocketId from, PeerId to, Message message) {
  share_header(message);
  const pb::LabCosts& costs = world_.costs;
  const double takes = costs.client_message_us() + coding_us(message, false);
  world_.clients_us += takes;
  lane_.add([this, takes, from, to, message = std::move(message)] {
    return Lane::Work{takes, [this, from, to, message] {
                        if (network_.is_open(from)) network_.send(from, to, message);
                      }};
  });
}

double TrainingWorker::coding_us(const Message& message, bool has_arrived) {
  if (world_.codecs.are_free()) return 0;
  const auto decoded = decode_data(message);
  if (!decoded) return 0;
  return has_arrived ? world_.codecs.decode_us(decoded.value())
                     : encoded_.take(world_.codecs, decoded.value());
}

void TrainingWorker::share_header(Message& message) {
  constexpr std::size_t kLong = 1024;
  if (message.frames.empty() || message.frames.front().size() < kLong) return;
  Frame& header = message.frames.front();
  if (header.text() == long_header_.text()) {
    header = long_header_;
  } else {
    long_header_ = header;
  }
}

void TrainingWorker::exchange_soon() {
  if (!exchange_ || std::exchange(exchange_is_due_, true)) return;
  at(world_.now(), [this] {
    exchange_is_due_ = false;
    if (exchange_) exchange_();
  });
}

void TrainingWorker::wake_client() {
  if (waits_ == Waits::kShards) {
    at(world_.now(), [this, wait = waits_so_far_] {
      if (waits_ == Waits::kShards && wait == waits_so_far_) resume();
    });
  } else if (!std::exchange(work_is_due_, true)) {
    at(world_.now(), [this] { let_client_work(); });
  }
}

void TrainingWorker::let_client_work() {
  work_is_due_ = false;
  if (client_ == nullptr || waits_ == Waits::kShards) return;
  if (world_.meter == nullptr) {
    client_->work();
  } else {
    const Stopwatch stopwatch;
    client_->work();
    world_.meter->note(world_.meter->client, arrived_, stopwatch.microseconds());
    arrived_ = 0;
  }
  if (endpoint_->has_messages()) wake_client();
}

void TrainingWorker::keep_client_working(std::uint64_t use) {
  if (use != uses_ || client_ == nullptr) return;
  let_client_work();
  at(world_.now() + kIdle, [this, use] { keep_client_working(use); });
}

std::unique_ptr<Endpoint> TrainingWorker::make_endpoint() {
  auto endpoint = std::make_unique<NodeEndpoint>(
      network_, node_,
      NodeEndpoint::Owner{
          .send = [this](PeerId to,
                         Message message) { send(endpoint_->socket(), to, std::move(message)); },
          .wait = [this](Duration at_most) { pass(Waits::kShards, at_most); },
          .wake = [this] { wake_client(); },
          .closed = [this] { endpoint_ = nullptr; }});
  endpoint_ = endpoint.get();
  return endpoint;
}

Result<collective::RankEndpoint> TrainingWorker::listen_as_rank(
    const collective::RankBoard& /*board*/) {
  auto endpoint = std::make_unique<NodeEndpoint>(
      network_, node_,
      NodeEndpoint::Owner{
          .send = [this](PeerId to,
                         Message message) { send(ranks_->socket(), to, std::move(message)); },
          .wait = [this](Duration at_most) { pass(Waits::kRanks, at_most); },
          .wake = [] {},
          .closed =
              [this] {
                ranks_ = nullptr;
                exchange_ = nullptr;
              }});
  ranks_ = endpoint.get();
  collective::RankEndpoint rank;
  TAUT_TRY(const std::string address,
           endpoint->bind(fmt::format("worker{}.{}.{}", number_, starts_, ++listened_)));
  rank.place.set_address(address);
  rank.endpoint = std::move(endpoint);
  return rank;
}

worker::Pace& TrainingWorker::pace() {
  return *pace_;
}

std::unique_ptr<ValueStore> TrainingWorker::make_store(Client& client,
                                                       const ServedOptions& options) {
  if (!learns()) {
    client.on_values([](std::span<float>, const Frame&) {});  // zeros, never read
    return std::make_unique<CostStore>(client, options, *world_.memory);
  }
  // A measurement must do what a worker's process does.
  if (world_.meter != nullptr) return nullptr;
  const std::vector<TableSpec>& tables = world_.assets->train_graph().parameters;
  auto values = std::make_unique<SharedValues>(world_.values, tables);
  client.on_values([values = values.get()](std::span<float> into, const Frame& part) {
    values->take(into, part);
  });
  return std::make_unique<HostStore>(client, tables, options, std::move(values));
}

void TrainingWorker::use(Client* client) {
  client_ = client;
  ++uses_;
  if (client == nullptr) return;
  at(world_.now(), [this, use = uses_] { keep_client_working(use); });
}

void TrainingWorker::pass(Waits what, Duration at_most) {
  const TimePoint begin = world_.now();
  waits_ = what;
  at(world_.now() + at_most, [this, wait = ++waits_so_far_] {
    if (waits_ != Waits::kNot && wait == waits_so_far_) resume();
  });
  leave();
  show(VirtualTimeline::Kind::kWait, "wait", Clock(-1), begin);
}

void TrainingWorker::show(VirtualTimeline::Kind kind, std::string_view name, Clock clock,
                          TimePoint begin) const {
  if (world_.playback != nullptr) {
    world_.playback->spend(world_.topology->host_of(node_), state_of(kind), begin, world_.now());
  }
  if (world_.timeline == nullptr) return;
  world_.timeline->add({.process = node_, .kind = kind}, name, clock, begin, world_.now());
}

void TrainingWorker::show_layer(worker::Pace::Pass pass, std::size_t layer, Clock clock,
                                TimePoint begin) const {
  if (world_.timeline == nullptr) return show(VirtualTimeline::Kind::kCompute, "", clock, begin);
  const std::string& name = world_.assets->train_graph().nodes[layer].definition.name();
  const bool is_forward = pass == worker::Pace::Pass::kForward;
  show(VirtualTimeline::Kind::kCompute, name + (is_forward ? " forward" : " backward"), clock,
       begin);
}

void TrainingWorker::play_forward(std::size_t layer, Clock clock) {
  if (world_.playback == nullptr) return;
  if (layer == 0) {
    play(*run_);
    world_.playback->reach(number_, clock, world_.now());
  }
  if (layer == reading_layer_) world_.playback->compute(number_, clock, world_.now());
}

void TrainingWorker::play(Run& run) const {
  if (world_.playback == nullptr) return;
  const worker::ProgressReport report = run.board.read();
  Playback::Totals totals{.clocks = report.clock.value()};
  for (const auto& [staleness, reads] : report.staleness) {
    totals.reads += reads;
    totals.staleness += static_cast<double>(staleness) * static_cast<double>(reads);
  }
  if (totals.clocks > run.played.clocks) {
    const auto loss = learns() ? std::optional(report.loss) : std::nullopt;
    world_.playback->finish(run.played, totals, loss, world_.now());
    run.played = totals;
  }
  for (; run.tests < report.tests.size(); ++run.tests) {
    const worker::TestResult& test = report.tests[run.tests];
    world_.playback->test({.clock = test.clock,
                           .at_s = seconds(run.last_tested.since_origin()),
                           .accuracy = test.accuracy,
                           .loss = test.loss});
  }
}

void TrainingWorker::compute(double microseconds) {
  if (microseconds <= 0) return;
  world_.compute_of(node_).run(microseconds, [this] { resume(); });
  leave();
}

void TrainingWorker::note_layer(worker::Pace::Pass pass, std::size_t layer) {
  Meter& meter = *world_.meter;
  const double took = std::exchange(busy_us_, 0) + entered_.microseconds();
  Meter::note(pass == worker::Pace::Pass::kForward ? meter.forward_us : meter.backward_us, layer,
              took);
  entered_ = Stopwatch();
}

void TrainingWorker::leave() {
  busy_us_ += entered_.microseconds();
  // What others wait for may be ready by now.
  exchange_soon();
  run_->fiber->leave();
}

void TrainingWorker::resume() {
  waits_ = Waits::kNot;
  arrived_ = 0;
  entered_ = Stopwatch();
  run_->fiber->enter();
  if (run_->end.finished) {
    world_.step_soon(node_);
  } else if (waits_ != Waits::kShards && endpoint_ != nullptr && endpoint_->has_messages()) {
    wake_client();
  }
}

void TrainingWorker::on_event(const ControlEvent& event, TimePoint /*now*/) {
  if (const auto* job = std::get_if<pb::WorkerJob>(&event)) {
    take_job(*job);
  } else if (std::holds_alternative<control_event::Leave>(event)) {
    hand_over();
  } else if (const auto* lost = std::get_if<control_event::DeclaredLost>(&event)) {
    log::warn("worker{}: {}", number_, lost->reason);
    stop_run();
  }
}

void TrainingWorker::stop_run() {
  if (!run_ || run_->orders.stop.exchange(true)) return;
  if (client_ != nullptr) client_->cancel();
}

/// Makes the run write what only this worker has of a checkpoint.
void TrainingWorker::order_checkpoint(const pb::WorkerJob& job) {
  if (!job.has_checkpoint() || world_.disk == nullptr) return;
  pb::CheckpointOrder order = job.checkpoint();
  order.set_folder(world_.disk->place_of(order.folder()));
  run_->saver.order(order);
}

void TrainingWorker::take_job(const pb::WorkerJob& job) {
  const bool same =
      run_ && run_->job.job() == job.job() && run_->job.incarnation() == job.incarnation();
  if (same) {
    run_->orders.shares.take(job);
    run_->orders.last_clocks.take(job);
    run_->orders.ranks.post(job);
    run_->job.set_revision(job.revision());
    run_->orders.evaluates = job.evaluates();
    order_checkpoint(job);
    if (job.replicated() && client_ != nullptr) client_->move_shards(worker::shard_addresses(job));
    if (job.leaves()) run_->orders.leave = true;
    if (job.stop()) stop_run();
    return;
  }
  if (run_ && !run_->end.finished) {
    // It was declared lost: the run ends soon.
    next_job_ = job;
    return;
  }
  if (job.stop()) return;
  run_ = std::make_unique<Run>();
  run_->job = job;
  run_->orders.shares.take(job);
  run_->orders.last_clocks.take(job);
  run_->orders.ranks.post(job);
  run_->orders.evaluates = job.evaluates();
  run_->orders.leave = leaves_ || job.leaves();
  order_checkpoint(job);
  run_->begun = world_.now();
  run_->played.clocks = job.start_clock();
  reported_end_ = false;
  run_->fiber = std::make_unique<Fiber>([this, one = run_.get()] { run(*one); }, kStack);
  at(world_.now(), [this] { resume(); });
}

/// The body of the fiber.
void TrainingWorker::run(Run& run) {
  try {
    Backend* const device = world_.backend;
    auto ended = worker::run_member(run.job, *world_.assets, std::span(&device, 1), *this, config_,
                                    run.orders, run.board, run.saver);
    if (ended) {
      run.end.outcome = ended.value();
    } else if (!run.orders.stop) {
      run.end.error = ended.error().message;
    }
  } catch (const std::exception& failure) {
    run.end.error = failure.what();
  }
  if (!run.end.error.empty()) log::error("worker{}: {}", number_, run.end.error);
  play(run);
  if (world_.playback != nullptr) {
    if (run.orders.stop || run.end.outcome.left || !run.end.error.empty()) {
      world_.playback->leave(number_, world_.now());
    } else {
      world_.playback->reach(number_, Clock(run.played.clocks), world_.now());
    }
  }
  run.end.finished = true;
}

void TrainingWorker::report_progress() {
  if (!run_) return;
  pb::Heartbeat content;
  *content.mutable_progress() =
      worker::progress_of(run_->job, run_->begun, run_->board, run_->end, run_->rate, world_.now());
  run_->orders.shares.report(*content.mutable_progress());
  run_->orders.last_clocks.report(*content.mutable_progress());
  run_->orders.ranks.report(*content.mutable_progress());
  if (auto part = run_->saver.part(); part.number() > 0) {
    *content.mutable_progress()->mutable_checkpoint() = std::move(part);
  }
  const pb::Progress& progress = content.progress();
  const bool ended = progress.finished() || progress.left();
  const bool news = (ended && !reported_end_) || reported_revision_ != progress.revision();
  reported_end_ = ended;
  reported_revision_ = progress.revision();
  report(std::move(content), news);
}

void TrainingWorker::hand_over() {
  ControlNode::hand_over();
  leaves_ = true;
  if (run_) run_->orders.leave = true;
}

void TrainingWorker::step(TimePoint now) {
  report_progress();
  if (next_job_ && run_->end.finished) take_job(*std::exchange(next_job_, std::nullopt));
  ControlNode::step(now);
}

}  // namespace taut::lab
