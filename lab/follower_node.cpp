#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lab/nodes.hpp"

namespace taut::sim {
namespace {

constexpr Duration kTick{2000};

FollowerTimings timings_of(const Plan& plan) {
  FollowerTimings timings;
  timings.report = plan.heartbeat_interval;
  timings.change = plan.heartbeat_interval / 2;
  timings.probe = Duration(8000);
  timings.resend = Duration(20'000);
  return timings;
}

}  // namespace

FollowerNode::FollowerNode(World& world, std::uint32_t number, std::uint64_t session)
    : world_(world),
      node_(world.plan.follower_node(number)),
      random_(Random::mix(world.plan.seed ^ 0xf0110eULL) ^ session),
      id_(1000 + session),
      socket_(world.network.open(node_)),
      coordinator_(world.network.connect(socket_, kCoordinatorAddress)),
      protocol_({JobId(1), id_, fmt::format("follower{}", number), world.plan.followers_bound, ""},
                timings_of(world.plan), world.pool, kSliceElements) {}

FollowerNode::~FollowerNode() {
  world_.network.close(socket_);
}

void FollowerNode::receive(SocketId /*socket*/, PeerId from, Body body, TimePoint now) {
  if (const auto* message = std::get_if<pb::ControlMessage>(&body)) {
    // Before the job is submitted there is nothing to follow.
    const bool is_known = message->has_follow_reply() && message->follow_reply().error().empty();
    if (from == coordinator_ && is_known) protocol_.handle(message->follow_reply(), now);
    return;
  }
  const auto shard = shard_of_.find(from);
  if (shard != shard_of_.end()) {
    protocol_.handle(shard->second, std::get<DataMessage>(body), now);
  }
}

void FollowerNode::wish(TimePoint now) {
  Wish wish;
  const std::uint64_t kind = random_.below(4);
  if (kind == 0) wish.at_least = protocol_.confirmed().next();
  if (kind == 1) wish.max_behind = random_.between(0, 2);
  has_wish_ = true;
  protocol_.wish(wish, now);
}

void FollowerNode::take(TimePoint now) {
  const auto model = protocol_.take();
  if (!model) return;
  has_wish_ = false;
  const Plan& plan = world_.plan;
  next_wish_ = now + Duration(random_.between(0, 3 * plan.compute_max.count()));
  Event event;
  event.kind = Event::Kind::kFollowed;
  event.at = now;
  event.incarnation = Incarnation(id_.value());
  event.version = model->version;
  for (const TableSpec& table : *model->tables) {
    event.table = table.id;
    world_.history.add(event, model->values[table.id.value()].floats());
  }
}

void FollowerNode::step(TimePoint now) {
  if (!has_wish_ && now >= next_wish_) wish(now);
  if (now >= next_tick_) {
    protocol_.tick(now);
    next_tick_ = now + kTick;
  }
  take(now);
  for (const FollowerProtocol::Connection& connection : protocol_.take_connections()) {
    const auto known = peer_of_.find(connection.shard);
    if (known != peer_of_.end()) {
      world_.network.disconnect(known->second);
      shard_of_.erase(known->second);
    }
    const PeerId peer = world_.network.connect(socket_, connection.address);
    shard_of_[peer] = connection.shard;
    peer_of_[connection.shard] = peer;
  }
  for (FollowerProtocol::Outgoing& one : protocol_.take_outgoing()) {
    if (auto* control = std::get_if<pb::ControlMessage>(&one.message)) {
      world_.network.send(socket_, coordinator_, std::move(*control));
    } else {
      world_.network.send(socket_, peer_of_.at(one.shard),
                          std::move(std::get<DataMessage>(one.message)));
    }
  }
}

}  // namespace taut::sim
