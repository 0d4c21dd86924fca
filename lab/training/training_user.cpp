#include "lab/training/training_user.hpp"

#include <utility>

#include "proto/wire_version.hpp"

namespace taut::lab {
namespace {

constexpr Duration kBetween{20'000};

}  // namespace

TrainingUser::TrainingUser(World& world, pb::Job job, std::uint32_t servers,
                           std::optional<pb::ResumePoint> resume)
    : world_(world),
      job_(std::move(job)),
      servers_(servers),
      resume_(std::move(resume)),
      socket_(world.network->open(Topology::kUser)),
      coordinator_(world.network->connect(socket_, sim::kCoordinatorAddress)) {}

void TrainingUser::send(const pb::ControlMessage& message) {
  world_.network->send(socket_, coordinator_, message);
}

void TrainingUser::receive(sim::SocketId /*socket*/, PeerId /*from*/, sim::Body body,
                           TimePoint now) {
  const auto& message = std::get<pb::ControlMessage>(body);
  if (message.has_submit_reply() && number_ == 0) {
    number_ = message.submit_reply().job();
    refusal_ = message.submit_reply().error();
    submitted_at_ = now;
  } else if (message.has_status_reply()) {
    const pb::StatusReply& status = message.status_reply();
    have_joined_ = status.workers_size() >= static_cast<int>(job_.workers()) &&
                   status.servers_size() >= static_cast<int>(servers_);
    if (number_ > 0 && status.jobs_size() > 0) status_ = status.jobs(0);
  }
}

void TrainingUser::step(TimePoint now) {
  if (now < next_) return;
  // The status of many workers is long.
  next_ = now + kBetween * (1 + job_.workers() / 16);
  pb::ControlMessage message;
  if (number_ == 0) {
    pb::Hello& hello = *message.mutable_hello();
    hello.set_wire_version(kWireVersion);
    hello.set_role(pb::ROLE_CLIENT);
    hello.set_name("user");
    hello.set_session(1);
    send(message);
  }
  if (have_joined_ && number_ == 0) {
    *message.mutable_submit()->mutable_definition() = job_;
    message.mutable_submit()->set_token(1);
    if (resume_) *message.mutable_submit()->mutable_resume() = *resume_;
  } else {
    message.mutable_status_request()->set_job(number_);
  }
  send(message);
}

}  // namespace taut::lab
