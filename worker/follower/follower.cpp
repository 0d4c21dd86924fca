#include "worker/follower/follower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <random>
#include <utility>

#include "common/log.hpp"
#include "common/net/reach.hpp"
#include "common/system/host_name.hpp"
#include "proto/control_message.hpp"
#include "proto/session/data_secret.hpp"
#include "proto/wire_version.hpp"

namespace taut {
namespace {

constexpr Duration kIdle{100'000};
constexpr Duration kActive{10'000};  // while something is awaited
constexpr Duration kSilent{3'000'000};
constexpr int kAtOnce = 64;  // messages between two checks for what is due

FollowerId draw_number() {
  std::random_device source;
  const std::uint64_t number = (std::uint64_t{source()} << 32U) | source();
  return FollowerId(std::max<std::uint64_t>(number, 1));
}

/// Where others reach an endpoint that listens on every interface.
std::string reachable(const std::string& bound) {
  constexpr std::string_view kEverywhere = "0.0.0.0:";
  if (!bound.starts_with(kEverywhere)) return bound;
  return fmt::format("{}:{}", host_name(), bound.substr(kEverywhere.size()));
}

/// Listens where a follower passes models on. Returns the address at which others reach it.
Result<std::string> listen(Endpoint& endpoint, const std::string& place,
                           const std::string& coordinator) {
  std::string address = place;
  if (address.starts_with(':')) {
    TAUT_TRY(const std::string host, local_host_towards(coordinator));
    address = host + address;
  }
  auto bound = endpoint.bind(address);
  if (bound) return reachable(bound.value());
  return make_error(bound.error().code,
                    fmt::format("this follower cannot pass models on at {}; name another "
                                "HOST:PORT, or \":0\" for any port that is free",
                                bound.error().message));
}

pb::ControlMessage hello(const std::string& name) {
  pb::ControlMessage message;
  message.mutable_hello()->set_wire_version(kWireVersion);
  message.mutable_hello()->set_build(build_name());
  message.mutable_hello()->set_role(pb::ROLE_CLIENT);
  message.mutable_hello()->set_name(name);
  return message;
}

}  // namespace

Result<std::unique_ptr<Follower>> Follower::open(const FollowerOptions& options) {
  Started started;
  started.context = std::make_unique<ZmqContext>(options.security);
  EndpointLimits limits;
  // What another follower has not read is part of at most two models, and shares their memory.
  limits.unread = Bytes(std::numeric_limits<std::uint64_t>::max());
  // Values arrive slice by slice, and what other followers send here is small.
  limits.frame = Bytes(16ULL << 20U);
  limits.arrived_messages = 2;
  started.endpoint = started.context->make_endpoint(limits);
  const CoordinatorAddresses coordinators(options.coordinator);
  if (!options.relay.empty()) {
    TAUT_TRY(started.address, listen(*started.endpoint, options.relay, coordinators.current()));
  }
  TAUT_TRY(started.coordinator, started.endpoint->connect(coordinators.current()));
  return std::unique_ptr<Follower>(new Follower(options, std::move(started)));
}

Follower::Follower(const FollowerOptions& options, Started started)
    : options_(options),
      context_(std::move(started.context)),
      endpoint_(std::move(started.endpoint)),
      coordinators_(options.coordinator),
      coordinator_(started.coordinator),
      asked_(steady_now()),
      address_(std::move(started.address)),
      protocol_({options.job, draw_number(), options.name, options.bounded, address_}, {}, pool_),
      thread_([this] { run(); }) {}

Follower::~Follower() {
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  endpoint_->wake();
  thread_.join();
}

FollowerProtocol::Traffic Follower::traffic() const {
  const std::scoped_lock lock(mutex_);
  return protocol_.traffic();
}

Result<std::shared_ptr<const Model>> Follower::pull(const Wish& wish, Duration wait,
                                                    Duration at_most) {
  std::unique_lock lock(mutex_);
  const TimePoint now = steady_now();
  const bool continues = waiting_ && waiting_->wish.at_least == wish.at_least &&
                         waiting_->wish.max_behind == wish.max_behind;
  if (!continues) {
    waiting_ = Waiting{wish, now};
    protocol_.wish(wish, now);
    lock.unlock();
    endpoint_->wake();
    lock.lock();
  }
  // A time point that far would overflow.
  const auto until = [](TimePoint from, Duration length) {
    constexpr Duration kForever = std::chrono::hours(24 * 365);
    return from + std::min(length, kForever);
  };
  const TimePoint deadline = until(waiting_->begin, wait);
  const TimePoint end = std::min(deadline, until(now, at_most));
  std::shared_ptr<const Model> model;
  while (true) {
    model = protocol_.take();
    const auto failure = failure_ ? failure_ : protocol_.failure();
    if (!model && failure) {
      waiting_.reset();
      return *failure;
    }
    const TimePoint here = steady_now();
    if (model || here >= end) break;
    changed_.wait_for(lock, end - here);
  }
  if (model) {
    waiting_.reset();
    lock.unlock();
    endpoint_->wake();  // the confirmation is sent now
    return model;
  }
  if (steady_now() < deadline) return model;
  waiting_.reset();
  protocol_.forget_wish();
  const std::string bound =
      wish.max_behind ? fmt::format(" at most {} clocks behind the newest", *wish.max_behind) : "";
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("no version {} or later{} of job {} in {:g} s: {}", wish.at_least.value(), bound,
                  options_.job.value(), seconds(wait), protocol_.waits_for(steady_now())));
}

void Follower::run() {
  [[maybe_unused]] const auto greeted = endpoint_->send(coordinator_, encode(hello(options_.name)));
  try {
    while (true) {
      bool is_active = false;
      {
        const std::scoped_lock lock(mutex_);
        if (stops_) break;
        protocol_.tick(steady_now());
        is_active = waiting_.has_value() || protocol_.state() == pb::SUBMITTED;
      }
      act();
      find_coordinator();
      auto incoming = endpoint_->receive(is_active ? kActive : kIdle);
      for (int i = 0; incoming && i < kAtOnce; ++i) {
        take(*incoming);
        act();
        incoming = endpoint_->receive(Duration::zero());
      }
      if (incoming) take(*incoming);
      changed_.notify_all();
    }
    [[maybe_unused]] const auto sent = endpoint_->send(coordinator_, encode(protocol_.goodbye()));
  } catch (const std::exception& failure) {
    const std::scoped_lock lock(mutex_);
    failure_ = make_error(ErrorCode::kIo, fmt::format("following ends: {}", failure.what()));
    changed_.notify_all();
  }
}

void Follower::take(const Incoming& incoming) {
  if (incoming.from == coordinator_) {
    take_control(incoming);
    return;
  }
  auto message = decode_data(incoming.message);
  if (!message) {
    log::warn("dropped a message: {}", message.error().message);
    return;
  }
  const TimePoint now = steady_now();
  const std::scoped_lock lock(mutex_);
  if (const auto shard = shard_of_.find(incoming.from); shard != shard_of_.end()) {
    protocol_.handle(shard->second, message.value(), now);
  } else if (incoming.from == source_) {
    protocol_.handle_source(message.value(), now);
  } else {
    protocol_.handle_peer(incoming.from, message.value());
  }
}

void Follower::take_control(const Incoming& incoming) {
  const auto message = decode_control(incoming.message);
  if (!message) {
    log::warn("dropped a message of the coordinator: {}", message.error().message);
    return;
  }
  heard_ = steady_now();
  const std::scoped_lock lock(mutex_);
  if (message.value().has_follow_reply()) {
    was_answered_ = true;
    if (auto secret = to_token(message.value().follow_reply().secret())) secret_ = secret;
    protocol_.handle(message.value().follow_reply(), *heard_);
  } else if (message.value().has_hello_reply()) {
    const pb::HelloReply& reply = message.value().hello_reply();
    if (reply.stands_by()) {
      endpoint_->disconnect(coordinator_);
      auto next = endpoint_->connect(coordinators_.next(reply.leader()));
      if (next) coordinator_ = next.value();
    } else if (!reply.accepted() && !was_answered_) {
      failure_ =
          make_error(ErrorCode::kMismatch, fmt::format("the coordinator at {} refused: {}",
                                                       coordinators_.current(), reply.reason()));
    }
  }
}

/// Fails if the coordinator refuses this side's key; tries the next address if it is silent.
void Follower::find_coordinator() {
  const TimePoint now = steady_now();
  if (const auto refusal = endpoint_->refusal(coordinator_); refusal && !was_answered_) {
    const std::scoped_lock lock(mutex_);
    if (!failure_ && refusal->is_final) {
      failure_ = make_error(
          ErrorCode::kUnavailable,
          fmt::format("the coordinator at {} {}", coordinators_.current(), refusal->reason));
    }
  }
  if (coordinators_.count() == 1 || now - std::max(heard_.value_or(asked_), asked_) < kSilent) {
    return;
  }
  asked_ = now;
  endpoint_->disconnect(coordinator_);
  if (auto next = endpoint_->connect(coordinators_.next(""))) coordinator_ = next.value();
}

void Follower::act() {
  std::vector<FollowerProtocol::Connection> connections;
  std::vector<FollowerProtocol::Outgoing> outgoing;
  {
    const std::scoped_lock lock(mutex_);
    connections = protocol_.take_connections();
    outgoing = protocol_.take_outgoing();
  }
  for (const FollowerProtocol::Connection& connection : connections) connect(connection);
  for (FollowerProtocol::Outgoing& one : outgoing) send(one);
}

void Follower::connect(const FollowerProtocol::Connection& connection) {
  const bool is_source = connection.to == FollowerProtocol::To::kSource;
  const auto known = peer_of_.find(connection.shard);
  if (is_source && source_) {
    endpoint_->disconnect(*std::exchange(source_, std::nullopt));
  } else if (!is_source && known != peer_of_.end()) {
    endpoint_->disconnect(known->second);
    shard_of_.erase(known->second);
    peer_of_.erase(known);
  }
  if (connection.address.empty()) return;
  // Followers authenticate each other by their keys, whatever the shards require.
  if (!is_source) endpoint_->use_token(secret_);
  const auto peer = endpoint_->connect(connection.address);
  endpoint_->use_token(std::nullopt);
  if (!peer) {
    log::warn("{}", peer.error().message);
  } else if (is_source) {
    source_ = peer.value();
  } else {
    shard_of_[peer.value()] = connection.shard;
    peer_of_[connection.shard] = peer.value();
  }
}

void Follower::send(FollowerProtocol::Outgoing& outgoing) {
  if (auto* control = std::get_if<pb::ControlMessage>(&outgoing.message)) {
    [[maybe_unused]] const auto sent = endpoint_->send(coordinator_, encode(*control));
    return;
  }
  const auto& message = std::get<DataMessage>(outgoing.message);
  PeerId peer = outgoing.peer;
  if (outgoing.to == FollowerProtocol::To::kSource) {
    if (!source_) return;
    peer = *source_;
  } else if (outgoing.to == FollowerProtocol::To::kShard) {
    const auto known = peer_of_.find(outgoing.shard);
    if (known == peer_of_.end()) return;
    peer = known->second;
  }
  // A message that is not sent now is sent again after its timeout.
  if (auto sent = endpoint_->send(peer, encode(message)); !sent) {
    log::debug("{}", sent.error().message);
  }
}

}  // namespace taut
