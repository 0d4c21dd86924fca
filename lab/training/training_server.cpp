#include "lab/training/training_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/log.hpp"
#include "server/checkpoints/resume_images.hpp"

namespace taut::lab {
namespace {

// As often as a shard's thread checks them while nothing arrives.
constexpr Duration kImages{100'000};

std::string shard_address(std::uint32_t server, std::uint32_t shard) {
  return fmt::format("server{}:{}", server, 1 + shard);
}

ControlIdentity identity_of(const World& world, std::uint32_t number, std::uint64_t start,
                            std::uint32_t shards) {
  ControlIdentity identity;
  identity.role = pb::ROLE_SERVER;
  identity.name = fmt::format("server{}", number);
  identity.session = start << 40U | (1 + number);
  const Topology& topology = *world.topology;
  identity.host = topology.hosts()[topology.host_of(topology.server_node(number))].name;
  for (std::uint32_t i = 0; i < shards; ++i) {
    identity.shard_addresses.push_back(shard_address(number, i));
  }
  return identity;
}

/// If no worker learns, none uses values: with zeros in their place, only the shard holds its
/// slices, and it need not copy one for each update while answers are under way.
void drop_values(DataMessage& message, CostMemory& memory) {
  auto* const items = std::get_if<DataItems>(&message.body);
  if (items == nullptr) return;
  for (DataItem& item : items->items) {
    if (item.kind == pb::DataItem::VALUE) item.payload = memory.zeros(item.payload.size());
  }
}

}  // namespace

TrainingServer::TrainingServer(World& world, std::uint32_t number, std::uint64_t start,
                               std::uint32_t shards, ControlTimings timings)
    : ControlNode(*world.network, world.topology->server_node(number),
                  identity_of(world, number, start, shards), timings),
      world_(world),
      server_(number),
      jobs_(shards) {
  for (std::uint32_t i = 0; i < shards; ++i) {
    auto one = std::make_unique<OneShard>(i, world.machine_of(node_), initial_);
    one->socket = world.network->open(node_);
    world.network->listen(one->socket, shard_address(number, i));
    one->shard.set_dial({.connect =
                             [this, socket = one->socket](const std::string& address) {
                               return world_.network->connect(socket, address);
                             },
                         .disconnect = [this](PeerId peer) { world_.network->disconnect(peer); }});
    shards_.push_back(std::move(one));
  }
}

void TrainingServer::receive(sim::SocketId socket, PeerId from, sim::Body body, TimePoint now) {
  auto* message = std::get_if<Message>(&body);
  if (message == nullptr) return ControlNode::receive(socket, from, std::move(body), now);
  const auto found =
      std::ranges::find_if(shards_, [socket](const auto& one) { return one->socket == socket; });
  if (found == shards_.end()) return;
  OneShard& one = **found;
  one.lane.add(
      [this, &one, from, message = std::move(*message)] { return serve(one, from, message); });
}

/// One turn of a shard's thread: it handles a message, and then sends its answers one by one.
Lane::Work TrainingServer::serve(OneShard& one, PeerId from, const Message& message) {
  const Stopwatch stopwatch;
  const std::uint64_t bytes = bytes_of(message);
  auto decoded = decode_data(message);
  if (!decoded) {
    log::warn("dropped a message: {}", decoded.error().message);
    return {.done = [] {}};
  }
  double coding_us =
      world_.codecs.decode_us(decoded.value()) + world_.codecs.apply_us(decoded.value());
  auto answers = one.shard.handle(from, std::move(decoded.value()), world_.now());
  auto images = one.shard.take_images(world_.now());
  std::ranges::move(images, std::back_inserter(answers));
  note_changes();
  note_bound(one);
  if (!world_.codecs.are_free()) {
    for (const server::Outgoing& answer : answers) {
      coding_us += one.encoded.take(world_.codecs, answer.message);
    }
  }
  auto messages = encoded(std::move(answers));
  if (world_.meter != nullptr) {
    std::uint64_t all = bytes;
    for (const auto& [to, answer] : messages) all += bytes_of(answer);
    world_.meter->note(world_.meter->shard, all, stopwatch.microseconds());
  }
  const pb::LabCosts& costs = world_.costs;
  const double takes =
      message_us(costs.shard_message_us(), costs.shard_us_per_mib(), bytes) + coding_us;
  world_.shards_us += takes;
  return {.microseconds = takes,
          .done = [this, &one, messages = std::move(messages), begin = world_.now()] {
            show(one, "serve", begin);
            std::for_each(messages.rbegin(), messages.rend(),
                          [&](const auto& answer) { send_next(one, answer.first, answer.second); });
          }};
}

void TrainingServer::send_next(OneShard& one, PeerId to, const Message& message) {
  const double takes = message_us(0, world_.costs.shard_us_per_mib(), bytes_of(message));
  world_.shards_us += takes;
  one.lane.add_next([this, takes, &one, to, message] {
    return Lane::Work{takes, [this, &one, to, message, begin = world_.now()] {
                        show(one, "answer", begin);
                        world_.network->send(one.socket, to, message);
                      }};
  });
}

/// Reports the bound that a policy has set at a shard to the playback.
void TrainingServer::note_bound(const OneShard& one) const {
  if (world_.playback == nullptr) return;
  if (const auto moving = one.shard.moving_slack()) {
    world_.playback->bound(server_, one.number, moving->slack, world_.now());
  }
}

void TrainingServer::show(const OneShard& one, std::string_view name, TimePoint begin) const {
  if (world_.playback != nullptr) {
    world_.playback->spend(world_.topology->host_of(node_), Playback::State::kServing, begin,
                           world_.now());
  }
  if (world_.timeline == nullptr) return;
  world_.timeline->add(
      {.process = node_, .kind = VirtualTimeline::Kind::kServe, .lane = one.number}, name,
      Clock(-1), begin, world_.now());
}

std::vector<std::pair<PeerId, Message>> TrainingServer::encoded(
    std::vector<server::Outgoing> answers) const {
  if (world_.memory != nullptr) {
    for (server::Outgoing& answer : answers) drop_values(answer.message, *world_.memory);
  }
  std::vector<std::pair<PeerId, Message>> messages;
  messages.reserve(answers.size());
  for (const server::Outgoing& answer : answers) {
    messages.emplace_back(answer.to, encode(answer.message));
  }
  return messages;
}

void TrainingServer::send(const OneShard& one, std::vector<server::Outgoing> messages) {
  for (auto& [to, message] : encoded(std::move(messages))) {
    world_.network->send(one.socket, to, std::move(message));
  }
}

/// Reports changes to the coordinator that no revision shows.
void TrainingServer::note_changes() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    server::Shard& shard = shards_[i]->shard;
    for (const JobId job : shard.take_changed()) {
      jobs_.take_report(i, shard.report(job));
      world_.step_soon(node_);
    }
    // Preparing and releasing memory costs nothing here.
    (void)shard.take_stocks();
    (void)shard.take_excesses();
    (void)shard.take_opened();
  }
  save_captures();
}

/// Writes what the shards have captured for checkpoints.
void TrainingServer::save_captures() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (server::ShardCapture& capture : shards_[i]->shard.take_captures()) {
      if (world_.disk == nullptr) continue;
      const JobId job = capture.job;
      jobs_.take_part(i, job, world_.disk->write(std::move(capture)));
      world_.step_soon(node_);
    }
  }
}

void TrainingServer::step(TimePoint now) {
  if (now >= images_due_) {
    images_due_ = now + kImages;
    for (const auto& one : shards_) send(*one, one->shard.take_images(now));
    note_changes();
  }
  if (auto news = jobs_.take_news()) report(std::move(*news), true);
  ControlNode::step(now);
}

TimePoint TrainingServer::wake() const {
  return std::min(ControlNode::wake(), images_due_);
}

std::uint64_t TrainingServer::shard_bytes() const {
  std::uint64_t largest = 0;
  for (const auto& one : shards_) {
    const BufferPool::Usage usage = one->pool.usage();
    largest = std::max(largest, usage.used.value() + usage.kept.value());
  }
  return largest;
}

void TrainingServer::on_event(const ControlEvent& event, TimePoint /*now*/) {
  if (std::holds_alternative<control_event::DeclaredLost>(event)) {
    resumed_.clear();
    for (const auto& over : jobs_.clear()) {
      for (const auto& one : shards_) (void)one->shard.set_job(over);
    }
  } else if (const auto* job = std::get_if<pb::ServerJob>(&event)) {
    take_job(*job);
  }
}

Result<std::vector<server::ShardImages>> TrainingServer::begin_of(const pb::ServerJob& job) {
  if (job.finished()) resumed_.erase(job.job());
  if (job.finished() || !job.has_resume() || resumed_.contains(job.job())) {
    return std::vector<server::ShardImages>(shards_.size());
  }
  TAUT_TRY(auto images, server::read_shard_images(job, shards_.size()));
  resumed_.insert(job.job());
  return images;
}

void TrainingServer::take_job(const pb::ServerJob& job) {
  const auto view = jobs_.take_job(job);
  if (!view) return;
  auto begin = begin_of(job);
  if (!begin) return jobs_.fail(view->job, begin.error().message);
  if (job.replication_interval() > 0) images_due_ = std::min(images_due_, world_.now() + kImages);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    OneShard& one = *shards_[i];
    one.shard.set_id(ShardId(job.first_shard() + static_cast<std::uint32_t>(i)));
    send(one, one.shard.set_job(view, std::move(begin.value()[i])));
    server::ShardReport report = one.shard.report(view->job);
    report.job = view->job;
    report.revision = view->revision;
    jobs_.take_report(i, std::move(report));
  }
  // A new order may be captured, or missed, at once.
  save_captures();
}

}  // namespace taut::lab
