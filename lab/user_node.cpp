#include <utility>

#include "lab/nodes.hpp"
#include "proto/wire_version.hpp"

namespace taut::sim {
namespace {

constexpr Duration kUserInterval{50'000};
constexpr std::uint64_t kRivalRequests = 1'000'000;
constexpr std::uint64_t kStopRequest = 2'000'000;

}  // namespace

ControlTimings control_timings(const Plan& plan) {
  ControlTimings timings;
  timings.heartbeat_interval = plan.heartbeat_interval;
  timings.hello_interval = plan.heartbeat_interval;
  timings.silence_limit = plan.heartbeat_limit / 2;
  timings.wait_limit = std::chrono::hours(1);
  return timings;
}

CoordinatorOptions coordinator_options(const Plan& plan, std::uint64_t session) {
  CoordinatorOptions options;
  options.heartbeat_limit = plan.heartbeat_limit;
  options.replication_interval = plan.replication_interval;
  options.replication_copies = plan.replication_copies;
  options.logs_updates = plan.logs_updates;
  if (plan.daemon_limits) {
    const CoordinatorOptions defaults;
    for (Duration CoordinatorOptions::*limit :
         {&CoordinatorOptions::stop_limit, &CoordinatorOptions::worker_wait,
          &CoordinatorOptions::checkpoint_limit, &CoordinatorOptions::save_limit,
          &CoordinatorOptions::backup_limit}) {
      const double ratio = seconds(defaults.*limit) / seconds(defaults.heartbeat_limit);
      options.*limit = from_seconds(seconds(plan.heartbeat_limit) * ratio);
    }
  } else {
    options.backup_limit = plan.heartbeat_limit * 4;
    // Within a run's time: a worker that is lost after it has finished never writes its part.
    options.checkpoint_limit = plan.heartbeat_limit * 10;
    options.save_limit = plan.heartbeat_limit * 20;
  }
  options.kept_bytes = plan.kept_bytes;
  options.resend_interval = plan.heartbeat_interval;
  options.session = session;
  options.balance_measure = Duration(1000);
  options.balance_hold = plan.heartbeat_limit / 4;
  return options;
}

UserNode::UserNode(World& world)
    : world_(world),
      socket_(world.network.open(Plan::kUserNode)),
      coordinator_(world.network.connect(socket_, kCoordinatorAddress)) {}

void UserNode::set_slack(Slack slack) {
  slack_ = slack;
  ++slack_request_;
}

void UserNode::start_preempting_job(std::uint32_t workers) {
  // One at a time: another one would be forgotten, and keep what it has.
  if (preempting_workers_ != 0) return;
  ++preempting_jobs_;
  preempting_workers_ = workers;
  preempting_job_ = 0;
  preempting_job_ends_ = false;
}

/// It is submitted until its number is known, and stopped until that is confirmed.
void UserNode::drive_preempting_job() {
  if (preempting_workers_ == 0) return;
  pb::ControlMessage order;
  order.set_request(kRivalRequests + preempting_jobs_);
  if (preempting_job_ == 0) {
    pb::Job& definition = *order.mutable_submit()->mutable_definition();
    definition = toy_definition(ToyJob());
    definition.set_name("rival");
    definition.set_workers(preempting_workers_);
    definition.set_priority(1);
    order.mutable_submit()->set_token(kRivalRequests + preempting_jobs_);
  } else if (preempting_job_ends_) {
    order.mutable_stop_job()->set_job(preempting_job_);
    order.mutable_stop_job()->set_discard(true);
  } else {
    return;
  }
  send(std::move(order));
}

void UserNode::send(pb::ControlMessage message) {
  world_.network.send(socket_, coordinator_, std::move(message));
}

void UserNode::receive(SocketId /*socket*/, PeerId /*from*/, Body body, TimePoint /*now*/) {
  const auto& message = std::get<pb::ControlMessage>(body);
  if (preempting_jobs_ > 0 && message.request() == kRivalRequests + preempting_jobs_) {
    if (message.has_submit_reply()) preempting_job_ = message.submit_reply().job();
    if (message.has_command_reply()) preempting_workers_ = 0;
    return;
  }
  if (message.has_command_reply() && message.request() == kStopRequest) stops_ = false;
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
  drive_preempting_job();
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
  if (stops_) {
    pb::ControlMessage order;
    order.set_request(kStopRequest);
    order.mutable_stop_job()->set_job(1);
    send(std::move(order));
  }
  pb::ControlMessage ask;
  ask.mutable_status_request()->set_job(1);
  send(std::move(ask));
}

}  // namespace taut::sim
