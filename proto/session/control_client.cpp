#include "proto/session/control_client.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/system/user_name.hpp"
#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"

namespace taut {
namespace {

// A request that is not answered by then is sent again; a coordinator treats the copy as one.
constexpr Duration kResendAfter = std::chrono::milliseconds(500);
constexpr Duration kRedirectPause = std::chrono::milliseconds(100);

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

/// The process's ZeroMQ contexts, one for each key. They are never destroyed: that would wait for
/// endpoints that are still open at exit, as an interpreter may leave them.
ZmqContext& context_with(const Security& security) {
  static std::mutex mutex;
  static auto* const contexts = new std::map<std::string, ZmqContext>();
  const std::scoped_lock lock(mutex);
  return contexts->try_emplace(security.own.public_key + security.cluster_key, security)
      .first->second;
}

}  // namespace

ControlClient::ControlClient(std::unique_ptr<Endpoint> endpoint, PeerId peer,
                             CoordinatorAddresses addresses, Duration deadline)
    : endpoint_(std::move(endpoint)),
      peer_(peer),
      addresses_(std::move(addresses)),
      deadline_(deadline),
      session_(random_number()) {}

Result<ControlClient> ControlClient::connect(std::unique_ptr<Endpoint> endpoint,
                                             const std::string& address, Duration deadline) {
  CoordinatorAddresses addresses(address);
  TAUT_TRY(const PeerId peer, endpoint->connect(addresses.current()));
  ControlClient client(std::move(endpoint), peer, std::move(addresses), deadline);
  TAUT_TRY(client.ask(client.hello()));
  return client;
}

pb::ControlMessage ControlClient::hello() {
  pb::ControlMessage message;
  pb::Hello& hello = *message.mutable_hello();
  hello.set_wire_version(kWireVersion);
  hello.set_build(build_name());
  hello.set_role(pb::ROLE_CLIENT);
  hello.set_name(fmt::format("tautline-{}", getpid()));
  hello.set_session(session_);
  return message;
}

void ControlClient::send(const pb::ControlMessage& message) {
  // After a full queue or a lost connection, the message is sent again.
  [[maybe_unused]] const auto sent = endpoint_->send(peer_, encode(message));
}

Result<bool> ControlClient::await(std::uint64_t number, TimePoint until,
                                  pb::ControlMessage& answer) {
  for (Duration left = until - steady_now(); left > Duration::zero(); left = until - steady_now()) {
    const auto incoming = endpoint_->receive(left);
    if (!incoming) {
      // Later refusals may be those of a process that has taken the coordinator's port.
      if (const auto refusal = endpoint_->refusal(peer_); refusal && !was_answered_) {
        return make_error(
            ErrorCode::kUnavailable,
            fmt::format("the coordinator at {} {}", addresses_.current(), refusal->reason));
      }
      continue;
    }
    was_answered_ = true;
    TAUT_TRY(answer, decode_control(incoming->message));
    if (answer.has_hello_reply() && answer.hello_reply().stands_by()) {
      redirected_ = answer.hello_reply().leader();
      return false;
    }
    if (answer.has_hello_reply() && answer.hello_reply().accepted()) {
      is_there_ = true;
      unsaved_ = answer.hello_reply().unsaved();
    }
    if (answer.has_hello_reply() && !answer.hello_reply().accepted()) {
      return make_error(ErrorCode::kMismatch,
                        fmt::format("the coordinator at {} refused: {}", addresses_.current(),
                                    answer.hello_reply().reason()));
    }
    if (answer.request() == number) return true;
  }
  return false;
}

Result<pb::ControlMessage> ControlClient::ask(pb::ControlMessage request) {
  const TimePoint deadline = steady_now() + deadline_;
  is_there_ = false;
  request.set_request(next_request_++);
  pb::ControlMessage answer;
  for (bool again = false; steady_now() < deadline; again = true) {
    // A coordinator that was restarted meanwhile needs a hello before it answers.
    if (again && !request.has_hello()) send(hello());
    send(request);
    const TimePoint until = std::min(deadline, steady_now() + kResendAfter);
    TAUT_TRY(const bool answered, await(request.request(), until, answer));
    if (answered) return answer;
    TAUT_TRY(move_on());
  }
  if (is_there_) {
    return make_error(
        ErrorCode::kTimeout,
        fmt::format(
            "the coordinator at {} is running, but has not confirmed this in {:g} s: it "
            "confirms nothing that it cannot save{}; unless it is stopped before, it does "
            "this once there is space",
            addresses_.current(), seconds(deadline_),
            unsaved_.empty() ? ", so its disk may be full, as its log says" : ": " + unsaved_));
  }
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("no coordinator at {} answered in {:g} s; start tautline-server with "
                  "coordinator {{}} in its config, or name another address with --coordinator",
                  addresses_.text(), seconds(deadline_)));
}

/// Connects to the address that a coordinator named or, after silence, to the next one of several.
Result<void> ControlClient::move_on() {
  const bool is_silent = !redirected_;
  if (is_silent && addresses_.count() == 1) return ok();
  const std::string leader = std::exchange(redirected_, std::nullopt).value_or("");
  // If no coordinator leads yet, every one redirects.
  if (!is_silent && leader.empty()) {
    std::this_thread::sleep_for(std::chrono::microseconds(kRedirectPause.count()));
  }
  endpoint_->disconnect(peer_);
  TAUT_TRY(peer_, endpoint_->connect(addresses_.next(leader)));
  return ok();
}

Result<pb::SubmitReply> ControlClient::submit(const pb::Job& definition,
                                              const pb::RunOrigin& origin) {
  pb::ControlMessage request;
  *request.mutable_submit()->mutable_definition() = definition;
  request.mutable_submit()->set_token(random_number());
  *request.mutable_submit()->mutable_origin() = origin;
  request.mutable_submit()->set_user(user_name());
  TAUT_TRY(auto answer, ask(std::move(request)));
  if (!answer.submit_reply().error().empty()) return invalid(answer.submit_reply().error());
  return std::move(*answer.mutable_submit_reply());
}

Result<pb::StatusReply> ControlClient::status(JobId job) {
  pb::ControlMessage request;
  request.mutable_status_request()->set_job(job.value());
  TAUT_TRY(auto answer, ask(std::move(request)));
  if (!answer.status_reply().error().empty()) return invalid(answer.status_reply().error());
  return std::move(*answer.mutable_status_reply());
}

Result<pb::CommandReply> ControlClient::command(pb::ControlMessage request) {
  TAUT_TRY(auto answer, ask(std::move(request)));
  pb::CommandReply& reply = *answer.mutable_command_reply();
  if (!reply.error().empty()) return invalid(reply.error());
  return std::move(reply);
}

Result<std::string> ControlClient::command_line(pb::ControlMessage request) {
  TAUT_TRY(const pb::CommandReply reply, command(std::move(request)));
  return reply.message();
}

Result<std::string> ControlClient::set_slack(JobId job, Slack slack) {
  pb::ControlMessage request;
  request.mutable_set_slack()->set_job(job.value());
  request.mutable_set_slack()->set_slack(slack.clocks());
  return command_line(std::move(request));
}

Result<pb::JobStatus> ControlClient::job(JobId job) {
  pb::ControlMessage request;
  request.mutable_status_request()->set_job(job.value());
  request.mutable_status_request()->set_definition(true);
  TAUT_TRY(auto answer, ask(std::move(request)));
  pb::StatusReply& reply = *answer.mutable_status_reply();
  if (!reply.error().empty()) return invalid(reply.error());
  if (reply.jobs_size() != 1) return invalid("the coordinator's status does not hold the job");
  return std::move(*reply.mutable_jobs(0));
}

Result<pb::LogReply> ControlClient::log(JobId job, const std::string& process,
                                        std::uint64_t offset) {
  pb::ControlMessage request;
  request.mutable_log_request()->set_job(job.value());
  request.mutable_log_request()->set_process(process);
  request.mutable_log_request()->set_offset(offset);
  TAUT_TRY(auto answer, ask(std::move(request)));
  if (!answer.log_reply().error().empty()) return invalid(answer.log_reply().error());
  return std::move(*answer.mutable_log_reply());
}

Result<double> ControlClient::time() {
  TAUT_TRY(const pb::ControlMessage answer, ask(hello()));
  return answer.hello_reply().unix_time_s();
}

Result<pb::CheckNodesReply> ControlClient::check_nodes(const pb::CheckNodes& check) {
  pb::ControlMessage request;
  *request.mutable_check_nodes() = check;
  TAUT_TRY(auto answer, ask(std::move(request)));
  pb::CheckNodesReply& reply = *answer.mutable_check_nodes_reply();
  if (!reply.error().empty()) return invalid(reply.error());
  return std::move(reply);
}

Result<std::string> ControlClient::stop(JobId job, bool discard) {
  pb::ControlMessage request;
  request.mutable_stop_job()->set_discard(discard);
  request.mutable_stop_job()->set_job(job.value());
  return command_line(std::move(request));
}

Result<std::string> ControlClient::finish(JobId job) {
  pb::ControlMessage request;
  request.mutable_stop_job()->set_finish(true);
  request.mutable_stop_job()->set_job(job.value());
  return command_line(std::move(request));
}

Result<std::string> ControlClient::hold(JobId job, bool held) {
  pb::ControlMessage request;
  request.mutable_change_queue()->set_job(job.value());
  request.mutable_change_queue()->set_held(held);
  return command_line(std::move(request));
}

Result<std::string> ControlClient::set_priority(JobId job, std::int32_t priority) {
  pb::ControlMessage request;
  request.mutable_change_queue()->set_job(job.value());
  request.mutable_change_queue()->set_priority(priority);
  return command_line(std::move(request));
}

Result<std::string> ControlClient::drain(const std::string& name) {
  pb::ControlMessage request;
  request.mutable_drain()->set_name(name);
  return command_line(std::move(request));
}

Result<pb::CommandReply> ControlClient::checkpoint(JobId job) {
  pb::ControlMessage request;
  request.mutable_make_checkpoint()->set_job(job.value());
  return command(std::move(request));
}

Result<std::string> ControlClient::set_trace(bool on) {
  pb::ControlMessage request;
  request.mutable_set_trace()->set_on(on);
  return command_line(std::move(request));
}

Result<ControlClient> connect_control(const std::string& address, double wait_s,
                                      const Security& security) {
  const auto deadline = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait_s));
  return ControlClient::connect(context_with(security).make_endpoint(), address, deadline);
}

}  // namespace taut
