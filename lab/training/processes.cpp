#include "lab/training/processes.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "lab/training/training_server.hpp"
#include "lab/training/training_worker.hpp"

namespace taut::lab {
namespace {

constexpr Duration kGoodbyeTime = std::chrono::milliseconds(50);

}  // namespace

Processes::Processes(World& world, ProcessOptions options)
    : world_(world), options_(std::move(options)) {
  world_.step_soon = [this](sim::NodeId node) {
    world_.agenda.at(world_.now(), [this, node] { step(node); });
  };
}

void Processes::start() {
  places_.resize(first_worker() + options_.job.workers());
  sim::DoTask do_task;
  if (world_.disk != nullptr) {
    do_task = [this](CheckpointTask task) {
      return world_.disk->carry_out(std::move(task), world_.now());
    };
  }
  places_[Topology::kCoordinator].node = std::make_unique<sim::CoordinatorNode>(
      *world_.network, make_memory_store(), Topology::kCoordinator, options_.coordinator,
      std::move(do_task));
  auto user =
      std::make_unique<TrainingUser>(world_, options_.job, options_.servers, options_.resume);
  user_ = user.get();
  places_[Topology::kUser].node = std::move(user);
  for (sim::NodeId node = Topology::kUser + 1; node < places_.size(); ++node) enter(node);
  for (sim::NodeId node = 0; node < places_.size(); ++node) step(node);
}

std::uint64_t Processes::shard_bytes() const {
  std::uint64_t largest = 0;
  for (std::uint32_t server = 0; server < options_.servers; ++server) {
    const auto* const node = static_cast<const TrainingServer*>(
        places_[world_.topology->server_node(server)].node.get());
    if (node != nullptr) largest = std::max(largest, node->shard_bytes());
  }
  return largest;
}

/// Starts a server or a worker.
void Processes::enter(sim::NodeId number) {
  Place& place = places_[number];
  const std::uint64_t start = place.starts++;
  place.has_ended = false;
  place.planned = TimePoint::never();
  if (number >= first_worker()) {
    place.node =
        std::make_unique<TrainingWorker>(world_, number - first_worker(), start, options_.timings);
  } else {
    const std::uint32_t server = number - world_.topology->server_node(0);
    place.node =
        std::make_unique<TrainingServer>(world_, server, start, options_.shards, options_.timings);
  }
}

void Processes::step(sim::NodeId number) {
  Place& place = places_[number];
  if (place.node == nullptr || place.has_ended) return;
  place.node->step(world_.now());
  if (number > Topology::kUser && place.node->is_over()) return end(number);
  plan(number);
}

/// A drained server or worker ends as daemons do: its sockets stay open until the goodbye has had
/// time to be sent.
void Processes::end(sim::NodeId number) {
  Place& place = places_[number];
  place.has_ended = true;
  static_cast<sim::ControlNode&>(*place.node).say_goodbye("it was drained");
  world_.agenda.at(world_.now() + kGoodbyeTime, [this, number, start = place.starts] {
    if (places_[number].starts == start) world_.network->end(number);
  });
}

/// Enters in the agenda when a process must be processed again.
void Processes::plan(sim::NodeId number) {
  Place& place = places_[number];
  const TimePoint wake = std::max(place.node->wake(), world_.now());
  if (wake >= place.planned) return;
  place.planned = wake;
  world_.agenda.at(wake, [this, number, wake] {
    if (places_[number].planned != wake) return;
    places_[number].planned = TimePoint::never();
    step(number);
  });
}

void Processes::deliver(sim::Delivery delivery) {
  if (!world_.network->is_open(delivery.to)) return;
  const sim::NodeId number = world_.network->node_of(delivery.to);
  if (places_[number].has_ended) return;
  const bool is_control = std::holds_alternative<pb::ControlMessage>(delivery.body);
  places_[number].node->receive(delivery.to, delivery.from, std::move(delivery.body), world_.now());
  if (is_control) step(number);
}

std::vector<sim::NodeId> Processes::on_host(std::size_t host) const {
  std::vector<sim::NodeId> numbers;
  for (sim::NodeId node = Topology::kUser + 1; node < places_.size(); ++node) {
    if (world_.topology->host_of(node) == host) numbers.push_back(node);
  }
  return numbers;
}

void Processes::give_notice(std::size_t host) {
  for (const sim::NodeId number : on_host(host)) {
    const Place& place = places_[number];
    if (place.node == nullptr || place.has_ended) continue;
    static_cast<sim::ControlNode&>(*place.node).hand_over();
    step(number);
  }
}

void Processes::stop(std::size_t host) {
  for (const sim::NodeId number : on_host(host)) {
    if (world_.playback != nullptr && number >= first_worker()) {
      world_.playback->leave(number - first_worker(), world_.now());
    }
    if (world_.playback != nullptr && number < first_worker()) {
      world_.playback->lose(number - world_.topology->server_node(0), world_.now());
    }
    // Messages that its destructor would still send are dropped.
    world_.network->end(number);
    places_[number].node.reset();
  }
  world_.machines[host]->stop();
  const Topology::Host& its = world_.topology->hosts()[host];
  for (std::size_t i = 0; i < its.devices; ++i) world_.devices[its.first_device + i]->stop();
}

void Processes::start_again(std::size_t host) {
  for (const sim::NodeId number : on_host(host)) {
    enter(number);
    step(number);
  }
}

}  // namespace taut::lab
