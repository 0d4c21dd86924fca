#include "lab/node.hpp"

#include <utility>

namespace taut::sim {
namespace {

constexpr Duration kCoordinatorTick{40'000};

}  // namespace

ControlNode::ControlNode(Network& network, NodeId node, ControlIdentity identity,
                         ControlTimings timings)
    : network_(network),
      node_(node),
      socket_(network.open(node)),
      coordinator_(network.connect(socket_, kCoordinatorAddress)),
      session_(std::move(identity), timings, network.now()) {}

void ControlNode::receive(SocketId socket, PeerId from, Body body, TimePoint now) {
  if (auto* data = std::get_if<DataMessage>(&body)) {
    on_data(socket, from, std::move(*data), now);
  } else if (from == coordinator_) {
    act(session_.handle(std::get<pb::ControlMessage>(body), now), now);
  }
}

void ControlNode::step(TimePoint now) {
  if (now >= session_.next_tick()) act(session_.tick(now), now);
}

void ControlNode::say_goodbye(const std::string& reason) {
  if (session_.accepted()) network_.send(socket_, coordinator_, session_.goodbye(reason));
}

void ControlNode::act(ControlOutput output, TimePoint now) {
  if (output.reconnect) {
    network_.disconnect(coordinator_);
    coordinator_ = network_.connect(socket_, kCoordinatorAddress);
  }
  for (pb::ControlMessage& message : output.messages) {
    network_.send(socket_, coordinator_, std::move(message));
  }
  for (const ControlEvent& event : output.events) {
    is_drained_ |= std::holds_alternative<control_event::Drained>(event);
    on_event(event, now);
  }
}

CoordinatorNode::CoordinatorNode(Network& network, std::unique_ptr<CoordinatorStore> store,
                                 NodeId node, CoordinatorOptions options, DoTask do_task,
                                 bool learns_of_closed)
    : network_(network),
      socket_(network.open(node)),
      store_(std::move(store)),
      coordinator_(std::move(options), store_->load().value(), network.now()),
      saves_(*store_),
      do_task_(std::move(do_task)),
      learns_of_closed_(learns_of_closed),
      next_(network.now()) {
  network.listen(socket_, kCoordinatorAddress);
}

void CoordinatorNode::receive(SocketId /*socket*/, PeerId from, Body body, TimePoint now) {
  const auto* message = std::get_if<pb::ControlMessage>(&body);
  if (message != nullptr && !steps_down_) carry_out(coordinator_.handle(from, *message, now));
}

void CoordinatorNode::step(TimePoint now) {
  if (now < next_ || steps_down_) return;
  for (const PeerId peer : network_.take_closed()) {
    if (learns_of_closed_) coordinator_.note_closed(peer, now);
  }
  coordinator_.note_idle(now);
  carry_out(coordinator_.tick(now));
  next_ = now + kCoordinatorTick;
}

void CoordinatorNode::carry_out(CoordinatorOutput output) {
  SaveBeforeSend::Released released = saves_.take(std::move(output));
  steps_down_ |= released.failure && released.failure->code == ErrorCode::kClosed;
  if (steps_down_) return;
  for (CoordinatorMessage& one : released.messages) {
    network_.send(socket_, one.to, std::move(one.message));
  }
  for (CheckpointTask& task : released.tasks) {
    const DoneCheckpointTask done =
        do_task_ ? do_task_(std::move(task)) : DoneCheckpointTask{std::move(task), "", {}};
    carry_out(coordinator_.handle_done(done.task, done.error, network_.now()));
  }
}

}  // namespace taut::sim
