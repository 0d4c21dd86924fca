#include <fmt/format.h>

#include <utility>

#include "common/check.hpp"
#include "lab/nodes.hpp"
#include "proto/wire_version.hpp"

namespace taut::sim {
namespace {

constexpr const char* kCoordinator = "coordinator:1";
constexpr Duration kCoordinatorTick{20'000};
constexpr Duration kUserInterval{50'000};

ControlTimings timings(const Plan& plan) {
  ControlTimings timings;
  timings.heartbeat_interval = plan.heartbeat_interval;
  timings.hello_interval = plan.heartbeat_interval;
  timings.silence_limit = plan.heartbeat_limit / 2;
  timings.wait_limit = std::chrono::hours(1);
  return timings;
}

CoordinatorOptions options(const Plan& plan, std::uint64_t session) {
  CoordinatorOptions options;
  options.heartbeat_limit = plan.heartbeat_limit;
  options.replication_interval = plan.replication_interval;
  options.backup_limit = plan.heartbeat_limit * 4;
  options.kept_bytes = plan.kept_bytes;
  options.resend_interval = plan.heartbeat_interval;
  options.session = session;
  return options;
}

}  // namespace

ControlNode::ControlNode(World& world, NodeId node, ControlIdentity identity)
    : world_(world),
      node_(node),
      socket_(world.network.open(node)),
      coordinator_(world.network.connect(socket_, kCoordinator)),
      session_(std::move(identity), timings(world.plan), world.network.now()) {}

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

void ControlNode::act(ControlOutput output, TimePoint now) {
  if (output.reconnect) {
    world_.network.disconnect(coordinator_);
    coordinator_ = world_.network.connect(socket_, kCoordinator);
  }
  for (pb::ControlMessage& message : output.messages) {
    world_.network.send(socket_, coordinator_, std::move(message));
  }
  for (const ControlEvent& event : output.events) {
    is_drained_ |= std::holds_alternative<control_event::Drained>(event);
    on_event(event, now);
  }
}

UserNode::UserNode(World& world)
    : world_(world),
      socket_(world.network.open(Plan::kUserNode)),
      coordinator_(world.network.connect(socket_, kCoordinator)) {}

void UserNode::set_slack(Slack slack) {
  slack_ = slack;
  ++slack_request_;
}

void UserNode::send(pb::ControlMessage message) {
  world_.network.send(socket_, coordinator_, std::move(message));
}

void UserNode::receive(SocketId /*socket*/, PeerId /*from*/, Body body, TimePoint /*now*/) {
  const auto& message = std::get<pb::ControlMessage>(body);
  if (message.has_submit_reply() && message.submit_reply().job() > 0) submitted_ = true;
  if (message.has_command_reply() && message.request() == slack_request_) slack_.reset();
  if (message.has_status_reply() && message.status_reply().jobs_size() > 0) {
    status_ = message.status_reply().jobs(0);
  }
}

void UserNode::step(TimePoint now) {
  if (now < next_) return;
  next_ = now + kUserInterval;
  pb::ControlMessage hello;
  hello.mutable_hello()->set_wire_version(kWireVersion);
  hello.mutable_hello()->set_role(pb::ROLE_CLIENT);
  hello.mutable_hello()->set_name("user");
  hello.mutable_hello()->set_session(7);
  send(std::move(hello));
  if (!submitted_) {
    pb::ControlMessage submit;
    *submit.mutable_submit()->mutable_definition() = toy_definition(world_.plan.job);
    submit.mutable_submit()->set_token(99);
    send(std::move(submit));
    return;
  }
  if (slack_) {
    pb::ControlMessage change;
    change.set_request(slack_request_);
    change.mutable_set_slack()->set_job(1);
    change.mutable_set_slack()->set_slack(slack_->clocks());
    send(std::move(change));
  }
  if (!drained_.empty()) {
    pb::ControlMessage order;
    order.mutable_drain()->set_name(std::exchange(drained_, ""));
    send(std::move(order));
  }
  if (std::exchange(checkpoint_ordered_, false)) {
    pb::ControlMessage order;
    order.mutable_make_checkpoint()->set_job(1);
    send(std::move(order));
  }
  pb::ControlMessage ask;
  ask.mutable_status_request()->set_job(1);
  send(std::move(ask));
}

CoordinatorNode::CoordinatorNode(World& world, std::shared_ptr<CoordinatorRecords> disk,
                                 std::uint64_t session)
    : world_(world),
      socket_(world.network.open(Plan::kCoordinatorNode)),
      store_(make_memory_store(std::move(disk))),
      coordinator_(options(world.plan, session), store_->load().value(), world.network.now()),
      next_(world.network.now()) {
  world.network.listen(socket_, kCoordinator);
}

void CoordinatorNode::receive(SocketId /*socket*/, PeerId from, Body body, TimePoint now) {
  const auto* message = std::get_if<pb::ControlMessage>(&body);
  if (message != nullptr) carry_out(coordinator_.handle(from, *message, now));
}

void CoordinatorNode::step(TimePoint now) {
  if (now < next_) return;
  carry_out(coordinator_.tick(now));
  next_ = now + kCoordinatorTick;
}

void CoordinatorNode::carry_out(CoordinatorOutput output) {
  if (!output.changes.empty()) {
    TAUT_CHECK(store_->save(output.changes).has_value(), "memory does not fail");
  }
  for (CoordinatorMessage& one : output.messages) {
    world_.network.send(socket_, one.to, std::move(one.message));
  }
  // What it has to do with files is done at once, and never fails.
  for (const CheckpointTask& task : output.tasks) {
    carry_out(coordinator_.handle_done(task, "", world_.network.now()));
  }
}

}  // namespace taut::sim
